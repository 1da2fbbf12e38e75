"""What a printer makes of a page."""

from __future__ import annotations

import io
import re
import unicodedata
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect
from pypdf import PdfReader

from lockstep.site.verify.pdf import printed

from .conftest import Site
from .test_browser import Visit, browser  # noqa: F401

pytestmark = pytest.mark.xdist_group("site-pictures")

# A4 between the margins, in CSS pixels.
PAPER: Any = {"width": int((210 - 2 * 16) / 25.4 * 96), "height": 1000}


class Paper(NamedTuple):
    """A printed page: its sheets' text, and the tab it was printed from."""

    sheets: list[str]
    page: Page

    def holds(self, text: str) -> bool:
        """Whether some text is on it, however it was broken into lines, and
        if it begins on one sheet and ends on the next."""
        text, sheets = squeezed(text), [squeezed(one) for one in self.sheets]
        return any(text in sheet for sheet in sheets) or any(
            text[:cut] in sheet and text[cut:] in after
            for sheet, after in pairwise(sheets)
            for cut in range(1, len(text))
        )


def squeezed(text: str) -> str:
    """Text without what a PDF does to it: white space and ligatures."""
    return re.sub(r"\s", "", unicodedata.normalize("NFKC", text))


def sheets(pdf: bytes) -> list[str]:
    """The text of each sheet, without the number that stands on it."""
    found = [page.extract_text() for page in PdfReader(io.BytesIO(pdf)).pages]
    numbers = [f"{1 + n} / {len(found)}" for n in range(len(found))]
    return [
        text.replace(number, "", 1)
        for text, number in zip(found, numbers, strict=True)
    ]


def assert_on_one_sheet(visit: Visit, address: str) -> None:
    """A page with `one-sheet` fills no more than a sheet, without a number."""
    visit.open(address)
    assert len(sheets(printed(visit.page))) == 1, address


@pytest.fixture(scope="module")
def handbook(browser: Browser, site: Site) -> Any:  # noqa: F811
    with Visit(browser, site, viewport=PAPER, color_scheme="dark") as visit:
        page = visit.open("handbook/")
        pdf = printed(page)
        numbered = [p.extract_text() for p in PdfReader(io.BytesIO(pdf)).pages]
        for number, text in enumerate(numbered, start=1):
            assert f"{number} / {len(numbered)}" in text
        yield Paper(sheets(pdf), page)
        visit.assert_clean("handbook")


def test_the_last_hour_is_two_sheets_of_the_handbook(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    """At `#last-hour` the handbook is its boxes, its tables and the closing
    paragraph, on two sheets; a link shows the rest again."""
    with Visit(browser, site, viewport=PAPER) as visit:
        page = visit.open("handbook/#last-hour")
        paper = Paper(sheets(printed(page)), page)
        assert len(paper.sheets) == 2
        article = page.locator("article")
        said = article.locator(".quote p:last-child").all_inner_texts()
        said += article.locator("#closing ~ blockquote").all_inner_texts()
        assert len(said) > 9
        assert [text for text in said if not paper.holds(text)] == []
        rows = article.locator("table:visible tr")
        assert rows.count() > 50
        assert article.locator("pre:visible, details:visible").count() == 0
        assert not paper.holds("How to use this page")
        assert not paper.holds("Show the whole page")
        page.emulate_media(media="screen")
        page.get_by_role("link", name="Show the whole page").click()
        expect(article.locator("#the-cut")).to_be_visible()
        visit.assert_clean("handbook")


@pytest.mark.weekly
def test_the_handbook_is_printed_whole(handbook: Paper) -> None:
    assert 20 < len(handbook.sheets) < 60
    assert min(len(sheet) for sheet in handbook.sheets) > 100, "an empty sheet"
    page = handbook.page
    said = page.locator("article :is(h1, h2, h3, p, li, td)").evaluate_all(
        "all => all.filter(e => !e.matches(':has(.headerlink, .md-button, a)'))"
        ".map(e => e.textContent)"
    )
    assert len(said) > 200
    assert [text for text in said if not handbook.holds(text)] == []
    assert not handbook.holds("flowchart TD")
    assert handbook.holds("all-reduce of gradients")  # in a diagram


def test_no_code_is_clipped_on_paper(handbook: Paper) -> None:
    code = handbook.page.locator("article pre > code")
    lines = "\n".join(code.all_text_contents()).splitlines()
    assert len(lines) > 250
    missing = [line for line in lines if not handbook.holds(line)]
    assert missing == []
    wide = handbook.page.locator("article *").evaluate_all(
        """(all, width) => all
          .filter((e) => !e.closest("svg, [hidden]")
            && e.getBoundingClientRect().right > width + 1)
          .map((e) => e.outerHTML.slice(0, 120))""",
        PAPER["width"],
    )
    assert wide == []


def test_a_line_too_long_for_paper_is_wrapped(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    with Visit(browser, site, viewport=PAPER) as visit:
        page = visit.open("plain/#inside")
        code = page.locator("article pre > code").first
        code.evaluate("(e) => { e.textContent = 'wide '.repeat(80) + 'end'; }")
        printed(page)
        over = code.evaluate("(e) => e.scrollWidth - e.clientWidth")
        assert over <= 0


def test_paper_has_no_controls_and_tells_addresses(handbook: Paper) -> None:
    page = handbook.page
    controls = "nav, button, input, select, .md-button, .headerlink, header"
    seen = page.locator(f":is({controls}):visible").all()
    assert [one.evaluate("e => e.outerHTML") for one in seen] == []
    away = page.locator("article a[data-away]:not(.evidence *)").evaluate_all(
        "all => all.map(link => link.getAttribute('href'))"
    )
    assert len(away) > 10
    assert [link for link in away if not handbook.holds(f"<{link}>")] == []
    assert not handbook.holds("127.0.0.1")
    ink = page.locator("article p").first.evaluate(
        "e => getComputedStyle(e).color"
    )
    assert max(map(int, re.findall(r"\d+", ink)[:3])) < 80, "light on white"


def test_one_sheet_holds_what_else_takes_two(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    with Visit(browser, site) as visit:
        page = visit.open("plain/")
        page.locator("article").evaluate(
            """(article) => {
              const text = "<h2>A rule</h2><p>" + "It holds. ".repeat(30);
              article.innerHTML = `<div>${text.repeat(12)}</div>`;
            }"""
        )
        assert len(sheets(printed(page))) == 2
        page.locator("article > div").evaluate("e => e.className = 'one-sheet'")
        [sheet] = sheets(printed(page))
        assert sheet.count("A rule") == 12
        assert "1 / 1" not in sheet
