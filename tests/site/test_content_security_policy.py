"""The policy in the pages' heads: which scripts may run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lockstep.site.build.content_security_policy import (
    inline_scripts,
    policy,
    protect,
)

from .conftest import Site

PAGE = '<head><meta charset="utf-8"><script>{}</script></head>'


@pytest.mark.xdist_group("site")
def test_every_page_has_one_and_the_same_policy(site: Site) -> None:
    found = {
        tuple(re.findall(r'http-equiv="Content-Security-Policy"[^>]*', html))
        for html in site.pages().values()
    }
    [(meta,)] = found
    assert "unsafe-eval" not in meta
    scripts = re.search(r"script-src ([^;]*)", meta)
    assert scripts
    assert "unsafe-inline" not in scripts[1]
    assert "http" not in meta.removeprefix("http-equiv")


def test_only_what_runs_inline_is_hashed() -> None:
    data = '<script id="c" type="application/json">{}</script>'
    file = '<script src="a.js"></script>'
    assert inline_scripts(PAGE.format("go()") + data + file) == {"go()"}
    # The example of the specification, CSP level 3, 'sha256-'.
    assert "qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng=" in policy(
        ["alert('Hello, world.');"]
    )


def test_a_page_is_protected_by_the_scripts_of_all(tmp_path: Path) -> None:
    one, two = tmp_path / "index.html", tmp_path / "two" / "index.html"
    two.parent.mkdir()
    one.write_text(PAGE.format("one()"))
    two.write_text(PAGE.format("two()"))
    protect(tmp_path)
    first = one.read_text()
    assert first.count("sha256-") == 2
    assert first.replace("one()", "two()") == two.read_text()
    protect(tmp_path)
    assert one.read_text() == first, "the second time adds nothing"
    one.write_text("<head></head>")
    with pytest.raises(ValueError, match=r"^index\.html declares no charset"):
        protect(tmp_path)
