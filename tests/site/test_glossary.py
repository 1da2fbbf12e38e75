"""Words and their definitions, on their page and at their first use."""

from __future__ import annotations

import re
import time

import pytest
from bs4 import BeautifulSoup

from lockstep.site.pages import glossary
from lockstep.site.pages.evidence import headings
from tests.conftest import ROOT

from .conftest import Site

RANK = next(one for one in glossary.terms() if one.id == "rank")
ABBREVIATION = re.compile('<abbr title="([^"]*)"')
UNMARKED = re.compile(r"<(a|code|h[123]|pre)\b.*?</\1>", re.S)
MARK = f'<abbr title="{RANK.means}">'


def test_every_word_is_short_and_told_somewhere() -> None:
    for one in glossary.terms():
        assert len(one.means.split()) <= 25, one.term
        path, _, anchor = one.told.partition("#")
        assert anchor in headings(ROOT / "docs" / path), one.told


def test_no_two_words_share_an_id_or_a_form() -> None:
    every = glossary.terms()
    assert len({one.id for one in every}) == len(every)
    forms = [form.lower() for one in every for form in one.forms]
    assert len({*forms}) == len(forms)


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p>A rank, a rank</p>", f"<p>A {MARK}rank</abbr>, a rank</p>"),
        ("<p>Ranks and a rank</p>", f"<p>{MARK}Ranks</abbr> and a rank</p>"),
        (
            "<h2>rank</h2><p>rank</p>",
            f"<h2>rank</h2><p>{MARK}rank</abbr></p>",
        ),
        ('<td title="rank">rank', f'<td title="rank">{MARK}rank</abbr>'),
    ],
)
def test_the_first_use_is_marked(html: str, expected: str) -> None:
    assert glossary.marked(html) == expected


@pytest.mark.parametrize(
    "html",
    [
        "<p>rank-0 RANK per-rank frank ranked</p>",
        '<a href="#">the <em>rank</em> here</a>',
        "<pre><code><span>rank</span> rank</code></pre>",
        '<p class="admonition-title">rank</p>',
        "<svg><svg></svg><text>rank</text></svg>",
        "<!-- rank > rank --><p aria-label='a > rank'>",
        "<script>rank</script>",
    ],
)
def test_names_links_and_code_are_left_alone(html: str) -> None:
    assert glossary.marked(html) == html


def test_the_longer_word_is_marked_and_line_ends_do_not_matter() -> None:
    found = BeautifulSoup(
        glossary.marked("<p>a local\nrank, ring attention, a rank</p>"),
        "html.parser",
    )
    words = [" ".join(x.get_text().split()) for x in found.find_all("abbr")]
    assert words == ["local rank", "ring attention", "rank"]


@pytest.mark.xdist_group("site")
def test_no_page_is_littered(site: Site) -> None:
    page = f"{glossary.PAGE.removesuffix('.md')}/"
    marks = 0
    for address, html in site.pages().items():
        titles = ABBREVIATION.findall(html)
        assert len({*titles}) == len(titles), address
        if not titles:
            continue
        article = html.partition("<article")[2].partition("</article>")[0]
        for found in UNMARKED.finditer(article):
            assert "<abbr" not in found[0], address
        assert not titles or address != page
        marks += len(titles)
    assert marks > len(glossary.terms())


@pytest.mark.xdist_group("site")
def test_the_page_has_every_word(site: Site) -> None:
    html = site.pages()[f"{glossary.PAGE.removesuffix('.md')}/"]
    soup = BeautifulSoup(html, "html.parser")
    shown = {x["id"]: x.get_text() for x in soup.select("dt[id]")}
    assert shown == {one.id: one.term for one in glossary.terms()}
    for one in glossary.terms():
        told = soup.find(id=one.id).find_next_sibling("dd")
        assert one.means in re.sub(r"\s+", " ", told.get_text())


def test_marking_costs_little() -> None:
    """Of a page as long as the handbook, in processor time."""
    html = "<p>A <b>rank</b> waits in a collective, says gloo.</p>" * 5000
    before = time.process_time()
    glossary.marked(html)
    assert time.process_time() - before < 5
