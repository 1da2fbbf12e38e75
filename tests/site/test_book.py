"""The book of all cores: their order, their links, their sheets."""

from __future__ import annotations

import io
from collections import Counter

import pytest
from bs4 import BeautifulSoup
from pypdf import PdfReader

from lockstep.site.verify.book import bind, compose, cores

from .conftest import Site

pytestmark = pytest.mark.xdist_group("site-pictures")


def test_the_book_has_cores_that_share_a_depth() -> None:
    assert {
        "concepts/pipeline-parallelism/",
        "concepts/pipeline-in-torch/",
    } <= {*cores()}


def test_links_between_cores_stay_in_the_book(site: Site) -> None:
    """Each link to a core leads to an element of the book, other links of the
    site to the published address, and no two elements have one id."""
    published = "https://example.org/"
    html = compose(site.folder, published, cores())
    book = BeautifulSoup(html, "html.parser")
    named = [str(x["id"]) for x in book.select("[id]:not(svg [id], svg)")]
    assert [x for x, times in Counter(named).items() if times > 1] == []
    for link in book.select("a[href]:not(svg a)"):
        leads = str(link["href"])
        if leads.startswith("#"):
            assert leads[1:] in named
        else:
            assert leads.startswith(("https://", "http://", "mailto:")), leads
            for chapter in cores():
                assert not leads.startswith(published + chapter + "#")


def test_the_book_has_each_core_in_order_on_numbered_sheets(
    site: Site,
) -> None:
    titles = []
    for chapter in cores():
        html = (site.folder / chapter / "index.html").read_text("utf-8")
        heading = BeautifulSoup(html, "html.parser").select_one("article h1")
        assert heading
        titles.append(heading.get_text().removesuffix("¶").strip())
    reader = PdfReader(io.BytesIO(bind(site.folder, site.address, cores())))
    top = [one for one in reader.outline if not isinstance(one, list)]
    assert [one.title for one in top] == ["Lockstep", *titles]
    begins = [reader.get_destination_page_number(one) or 0 for one in top]
    assert begins == sorted({*begins})
    for number, sheet in enumerate(reader.pages, 1):
        assert f"{number} / {len(reader.pages)}" in sheet.extract_text()
