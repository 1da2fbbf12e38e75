"""What was published is still reached by its address."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import Browser

from lockstep.practice.bank import renamed
from lockstep.site.build.addresses import (
    PUBLISHED,
    address,
    main,
    published,
    redirects,
)
from lockstep.site.pages.questions import HOME

from .conftest import ROOT, Site
from .test_browser import Visit, browser  # noqa: F401 - a fixture

DOCS = ROOT / "docs"
EVERY = redirects(DOCS)
MOVED = {old: new for old, new in EVERY.items() if "#" not in old}
ANCHORS = {old: new for old, new in EVERY.items() if "#" in old}

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


def test_renamed_question_redirects(site: Site) -> None:
    """The old address of each renamed question leads to the question."""
    for old, new in renamed().items():
        sent = (site.folder / HOME / old / "index.html").read_text("utf-8")
        link = BeautifulSoup(sent, "html.parser").select_one("a")
        assert link is not None
        target = site.folder / HOME / old / str(link["href"])
        assert target.resolve() == (site.folder / HOME / new).resolve()


@pytest.mark.parametrize("old", ANCHORS)
def test_a_moved_anchor_leads_to_its_new_place(old: str, site: Site) -> None:
    """The page that lost the anchor forwards to a page that has it."""
    page, _, anchor = old.partition("#")
    new, _, there = ANCHORS[old].partition("#")
    left = BeautifulSoup(site.pages()[address(page)], "html.parser")
    assert left.find(id=anchor) is None, "it has not moved"
    told = json.loads(str(left.select_one("[data-moved]")["data-moved"]))
    target = site.folder / address(page) / told[anchor].partition("#")[0]
    assert target.resolve() == (site.folder / address(new)).resolve()
    assert told[anchor].partition("#")[2] == there
    html = site.pages()[address(new)]
    assert not there or BeautifulSoup(html, "html.parser").find(id=there)


def test_a_browser_is_forwarded_to_a_moved_anchor(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    """An old address with an anchor ends on the page that has it now."""
    with Visit(browser, site) as visit:
        visit.page.goto(site.address + "#evening")
        visit.page.wait_for_url("**/practice/#evening")


def test_a_release_adds_its_pages_and_forgets_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "new.md").touch()
    (tmp_path / "docs" / PUBLISHED).write_text("old.md\n")
    monkeypatch.chdir(tmp_path)
    assert main() == 0
    assert published(tmp_path / "docs") == ["new.md", "old.md"]
