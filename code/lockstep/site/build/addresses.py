"""MkDocs hook: published addresses still lead to their content.

    python -m lockstep.site.build.addresses   at a release: keep all addresses

`docs/published.txt` names each page that a release had. `docs/redirects.yml`
names the new place of each page and each anchor that has moved, and
`practice/renamed.yml` the new id of each renamed question. A server never
sees an anchor, so a page carries its moved anchors, and a script forwards.
"""

from __future__ import annotations

import sys
from html import escape
from json import dumps
from pathlib import Path

import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

from lockstep.site.pages.questions import moved

PUBLISHED = "published.txt"
REDIRECTS = "redirects.yml"
_moved: dict[str, str] = {}  # of the present build


def address(page: str) -> str:
    """Return a page's address: `concepts/memory/` for `concepts/memory.md`."""
    page, hash_, anchor = page.partition("#")
    return page.removesuffix("index.md").replace(".md", "/") + hash_ + anchor


def published(docs: Path) -> list[str]:
    """Return the pages of all releases, as paths below `docs`."""
    return (docs / PUBLISHED).read_text("utf-8").split()


def redirects(docs: Path) -> dict[str, str]:
    """Return the new place of each page and each anchor that has moved."""
    file = docs / REDIRECTS
    return yaml.safe_load(file.read_text("utf-8")) if file.exists() else {}


def moved_from(page: str, moved: dict[str, str]) -> dict[str, str]:
    """Return the anchors that left a page, each with its new place. `a.md` and
    `a/index.md` are one page, since they have one address."""
    start = f"{address(page)}#"
    return {
        address(old).removeprefix(start): new
        for old, new in moved.items()
        if address(old).startswith(start)
    }


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Give the moved pages to the plugin that writes redirects."""
    global _moved
    _moved = redirects(Path(config.docs_dir))
    pages = {old: new for old, new in _moved.items() if "#" not in old}
    pages |= moved(config.nav)
    config.plugins["redirects"].config["redirect_maps"] = pages
    return config


def on_page_content(html: str, page: Page, **_: object) -> str:
    """Tell assets/moved.js which anchors have left the page."""
    left = {
        anchor: get_relative_url(address(new), page.url)
        for anchor, new in moved_from(page.file.src_uri, _moved).items()
    }
    if not left:
        return html
    return f'{html}\n<div hidden data-moved="{escape(dumps(left))}"></div>'


def main() -> int:
    """Add the pages of this checkout to those that were published."""
    docs = Path("docs")
    now = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
    pages = sorted(now.union(published(docs)))
    (docs / PUBLISHED).write_text("\n".join(pages) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
