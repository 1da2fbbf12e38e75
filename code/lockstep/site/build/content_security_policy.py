"""What a page may load and run, told to the browser in the page itself.

GitHub Pages sends no headers of ours, so the Content-Security-Policy stands in
a `meta` element. It is the same on every page: instant navigation keeps the
policies of all pages that it has shown, and a browser obeys each of them.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

_SCRIPT = re.compile(
    r"<script(?P<attributes>[^>]*)>(?P<text>.*?)</script>", re.S
)
_META = '<meta http-equiv="Content-Security-Policy" content="{}">'
_HEAD = re.compile(
    r"(?P<charset><meta charset=\"utf-8\"\s*/?>)"
    r"(<meta http-equiv=\"Content-Security-Policy\"[^>]*>)?"
)
# Only this site, and of its inline scripts only those that were built.
# MicroPython runs in a worker, so no page may compile WebAssembly, and none
# evaluates text. Tables align their cells by `style` attributes; no page has a
# `style` element. The theme's icons are `data:` pictures. Of frames around the
# page a `meta` can say nothing.
_RULES = {
    "default-src": "'none'",
    "script-src": "'self' {scripts}",
    "style-src": "'self'",
    "style-src-attr": "'unsafe-inline'",
    "img-src": "'self' data:",
    "font-src": "'self'",
    "connect-src": "'self'",
    "worker-src": "'self'",
    "manifest-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
}


def inline_scripts(html: str) -> set[str]:
    """Return the scripts that a page holds and a browser runs."""
    return {
        found["text"]
        for found in _SCRIPT.finditer(html)
        if not re.search(r"\bsrc=|application/json", found["attributes"])
    }


def policy(scripts: Iterable[str]) -> str:
    """Return the policy under which only `scripts` run inline."""
    hashes = (b64encode(sha256(text.encode()).digest()) for text in scripts)
    listed = " ".join(
        sorted(f"'sha256-{digest.decode()}'" for digest in hashes)
    )
    rules = (f"{name} {value}" for name, value in _RULES.items())
    return "; ".join(rules).format(scripts=listed)


def protect(site: Path) -> None:
    """Write the one policy into every page below `site`, before anything that
    it rules.

    Raises:
        ValueError: a page has no place for it.
    """
    pages = {path: path.read_text("utf-8") for path in site.rglob("*.html")}
    scripts = set().union(*map(inline_scripts, pages.values()))
    meta = _META.format(policy(scripts))
    for path, old in pages.items():
        html, found = _HEAD.subn(rf"\g<charset>{meta}", old, count=1)
        if not found:
            raise ValueError(f"{path.relative_to(site)} declares no charset")
        if html != old:
            path.write_text(html, "utf-8")
