"""What was published is still reached by its address."""

from __future__ import annotations

from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from lockstep.site.build.addresses import (
    PUBLISHED,
    address,
    main,
    published,
    redirects,
)

from .conftest import ROOT, Site

DOCS = ROOT / "docs"
MOVED = redirects(DOCS)

pytestmark = pytest.mark.xdist_group("site")


def test_a_published_page_is_there_or_redirects(site: Site) -> None:
    there = site.pages()
    lost = [
        page
        for page in published(DOCS)
        if address(page) not in there and page not in MOVED
    ]
    assert lost == [], "renamed? say in docs/redirects.yml where they are"


@pytest.mark.parametrize("old", MOVED)
def test_a_redirect_leads_to_a_page_and_an_anchor(old: str, site: Site) -> None:
    assert old in published(DOCS), "nobody has this address"
    page, _, anchor = MOVED[old].partition("#")
    html = site.pages()[address(page)]
    assert not anchor or BeautifulSoup(html, "html.parser").find(id=anchor)
    sent = (site.folder / address(old) / "index.html").read_text("utf-8")
    link = BeautifulSoup(sent, "html.parser").select_one("a")
    assert link is not None
    target = site.folder / address(old) / str(link["href"]).partition("#")[0]
    assert target.resolve() == (site.folder / address(page)).resolve()


def test_a_release_adds_its_pages_and_forgets_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "new.md").touch()
    (tmp_path / "docs" / PUBLISHED).write_text("old.md\n")
    monkeypatch.chdir(tmp_path)
    assert main() == 0
    assert published(tmp_path / "docs") == ["new.md", "old.md"]
