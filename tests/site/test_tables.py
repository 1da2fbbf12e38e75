"""Tables on a phone, and for a reader who hears them."""

from __future__ import annotations

import pytest
from bs4 import BeautifulSoup

from lockstep.site.pages.phone_tables import stackable

from .conftest import Attributes, Reader, Site

TABLE = """<table>
<thead><tr><th>rank</th><th>of <b>world</b></th><th>a</th>{}</tr></thead>
<tbody><tr><td>0</td><td style="text-align: right;">2</td><td>x</td>{}</tr>
</tbody></table>"""


def test_a_table_of_four_columns_can_be_stacked() -> None:
    narrow = TABLE.format("", "")
    assert stackable(narrow) == narrow
    wide = stackable(TABLE.format("<th>b &amp; c</th>", "<td>y</td>"))
    table = BeautifulSoup(wide, "html.parser")
    assert table.select_one("table[data-stack]")
    labels = [cell["data-label"] for cell in table.select("td")]
    assert labels == ["rank", "of world", "a", "b & c"]


class Heads(Reader):
    """The texts of the heads of a page's tables."""

    def __init__(self, html: str) -> None:
        self.texts: list[str] = []
        self.within = False
        super().__init__(html)

    def handle_starttag(self, tag: str, attrs: Attributes) -> None:
        if tag == "th":
            self.within = True
            self.texts.append("")

    def handle_endtag(self, tag: str) -> None:
        self.within = self.within and tag != "th"

    def handle_data(self, data: str) -> None:
        if self.within:
            self.texts[-1] += data.strip()


@pytest.mark.xdist_group("site")
def test_every_column_has_a_name(site: Site) -> None:
    """A reader who hears a table, or sees it stacked, has nothing else."""
    heads = {
        address: Heads(html).texts for address, html in site.pages().items()
    }
    assert sum(map(len, heads.values())) > 1000
    assert {page: texts for page, texts in heads.items() if "" in texts} == {}


@pytest.mark.xdist_group("site")
def test_no_row_of_a_table_is_shown_as_a_paragraph(site: Site) -> None:
    """An empty line inside a table ends it, and the rest shows its bars."""
    pages = site.pages()
    assert len(pages) > 100
    assert [page for page, html in pages.items() if "<p>|" in html] == []


def test_the_name_that_a_row_starts_with_is_marked() -> None:
    """Its column is as wide as the name; others may break, or three columns
    would be wider than a phone."""
    cells = "<td><code>batch</code></td><td><code>sampler.py</code></td>"
    html = "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr>{}"
    table = BeautifulSoup(
        stackable(html.format(cells) + "</tr></tbody></table>"), "html.parser"
    )
    marked = [cell.get_text() for cell in table.select("td[data-name]")]
    assert marked == ["batch"]


def test_a_table_of_three_columns_is_stacked_if_it_holds_sentences() -> None:
    """Three short columns fit on a phone, and three of sentences do not."""
    head = "<table><thead><tr><th>a</th><th>b</th><th>c</th></tr></thead>"
    for words, stacks in ((2, False), (20, True)):
        cell = f"<td>{'word ' * words}</td>"
        found = stackable(f"{head}<tbody><tr>{3 * cell}</tr></tbody></table>")
        assert ("data-stack" in found) == stacks
