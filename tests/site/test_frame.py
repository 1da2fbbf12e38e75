"""Where a page stands: in the navigation, between two others, at the top."""

from __future__ import annotations

from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import (
    Link,
    Navigation,
    Section,
    get_navigation,
)
from mkdocs.structure.pages import Page

from lockstep.site.build import frame

from .conftest import Site

NAV = [
    {
        "Learn": [
            "concepts/index.md",
            {"First": ["concepts/a/index.md", "concepts/a/in-depth.md"]},
            {"Second": "concepts/b.md"},
            {"Third": ["concepts/c/index.md"]},
        ]
    },
    {"Practice": [{"Questions": "asked/index.md"}, "last.md"]},
]
MADE = {"asked/index.md": {"Data": ["asked/x.md", "asked/y.md"]}}
URIS = (
    "concepts/index.md",
    "concepts/a/index.md",
    "concepts/a/in-depth.md",
    "concepts/b.md",
    "concepts/c/index.md",
    "asked/index.md",
    "asked/x.md",
    "asked/y.md",
    "last.md",
)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Navigation, Files]:
    """The navigation of NAV and its files, with two pages that are made."""
    config = MkDocsConfig()
    config.load_dict({"site_name": "x", "docs_dir": str(tmp_path), "nav": NAV})
    config.validate()
    files = Files([File(uri, str(tmp_path), "site", True) for uri in URIS])
    return get_navigation(files, config), files


def page(files: Files, uri: str) -> Page:
    found = files.get_file_from_path(uri)
    assert found
    assert found.page
    return found.page


def test_made_pages_stand_below_their_index(
    files: tuple[Navigation, Files],
) -> None:
    nav, every = files
    frame.place(nav, MADE, every)
    titles = [item.title for item in page(every, "asked/y.md").ancestors]
    assert titles == ["Data", "Questions", "Practice"]
    practice = nav.items[1]
    assert isinstance(practice, Section)
    questions = practice.children[0]
    assert isinstance(questions, Section)
    assert questions.children[0] is page(every, "asked/index.md")
    assert [one.file.src_uri for one in nav.pages] == [*URIS]


def test_readers_walk_from_core_to_core(
    files: tuple[Navigation, Files],
) -> None:
    nav, every = files
    frame.place(nav, MADE, every)
    frame.walk(nav)
    core, after = (
        page(every, "concepts/a/index.md"),
        page(every, "concepts/b.md"),
    )
    depth = page(every, "concepts/a/in-depth.md")
    assert core.next_page is after
    assert after.previous_page is core
    assert depth.previous_page is core
    assert depth.next_page is after
    assert after.next_page is page(every, "concepts/c/index.md")
    assert page(every, "asked/y.md").next_page is page(every, "last.md")
    assert page(every, "last.md").next_page is None


def test_a_core_says_how_long_it_takes(
    files: tuple[Navigation, Files],
) -> None:
    _, every = files
    running = "word " * (frame.WORDS_PER_MINUTE * 3 - 2)
    html = (
        f"<h1>Two words</h1><p>{running}</p><pre>{running}</pre>"
        f"<details>{running}</details>"
    )
    core = frame.opened(html, page(every, "concepts/a/index.md"), every)
    assert "3 minutes" in BeautifulSoup(core, "html.parser").text
    assert 'href="in-depth/"' in core
    for uri in (
        "concepts/b.md",
        "concepts/c/index.md",
        "asked/index.md",
        "concepts/a/in-depth.md",
    ):
        assert frame.opened(html, page(every, uri), every) == html


def test_a_core_names_the_depth_that_it_shares(
    files: tuple[Navigation, Files],
) -> None:
    _, every = files
    core = page(every, "concepts/c/index.md")
    core.meta = {"depth": "../a/in-depth.md"}
    html = frame.opened("<h1>Two words</h1>", core, every)
    assert 'href="../a/in-depth/"' in html


def test_an_arrow_opens_the_depth_that_a_core_shares(
    files: tuple[Navigation, Files],
) -> None:
    nav, every = files
    core = page(every, "concepts/c/index.md")
    core.file.content_string = "---\ndepth: ../a/in-depth.md\n---\n"
    frame.share(nav, every)
    assert core.parent
    first, link = core.parent.children
    assert first is core
    assert isinstance(link, Link)
    assert link.url == page(every, "concepts/a/in-depth.md").url
    assert link.parent is core.parent


def test_every_tab_leads_to_an_index(site: Site) -> None:
    """Each tab opens a page that lists its section."""
    home = BeautifulSoup(site.pages()[""], "html.parser")
    tabs = [str(tab["href"]) for tab in home.select(".md-tabs__link")]
    assert len(tabs) == 7  # six, and the page that only tests have
    indexes = {f"{name.partition('/')[0]}/" for name in site.pages()}
    assert {*tabs} <= indexes


def test_every_page_has_a_tab_and_neighbors(site: Site) -> None:
    """Only home and the notebooks are outside the navigation."""
    framed = "md-tabs__item--active", "md-footer__link"
    outside = {
        name.partition("/")[0]
        for name, html in site.pages().items()
        if not all(part in html for part in framed)
    }
    assert outside == {"", "labs"}
