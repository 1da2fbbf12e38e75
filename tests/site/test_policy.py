"""The policy in the pages' heads, and what else their HTML is given."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from lockstep.site.policy import inline_scripts, policy, protect
from lockstep.site.tables import stackable

from .conftest import Site

PAGE = '<head><meta charset="utf-8"><script>{}</script></head>'
TABLE = """<table>
<thead><tr><th>rank</th><th>of <b>world</b></th><th>a</th>{}</tr></thead>
<tbody><tr><td>0</td><td style="text-align: right;">2</td><td>x</td>{}</tr>
</tbody></table>"""


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


def test_a_table_of_four_columns_can_be_stacked() -> None:
    narrow = TABLE.format("", "")
    assert stackable(narrow) == narrow
    wide = stackable(TABLE.format("<th>b &amp; c</th>", "<td>y</td>"))
    table = BeautifulSoup(wide, "html.parser")
    assert table.select_one("table[data-stack]")
    labels = [cell["data-label"] for cell in table.select("td")]
    assert labels == ["rank", "of world", "a", "b & c"]


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
