"""The page of published runs: pictures, rows, and the box for one run."""

from __future__ import annotations

import re
from itertools import pairwise
from urllib.parse import parse_qsl, urlsplit

import pytest
from bs4 import BeautifulSoup, Tag

from lockstep.experiments.published_runs.compare import Comparison, compared
from lockstep.experiments.published_runs.rows import inputs, rows
from lockstep.explore.svg import long
from lockstep.planner.figures import flag
from lockstep.practice.figures import computed
from lockstep.site.pages.charts import NARROW, WIDE, Axis, Chart, Point, scatter
from lockstep.site.pages.pictures import chart
from lockstep.site.pages.published_runs import Views, anchor

from .test_charts import drawn, numbers

VIEWS = Views("../", "./")
BOTH = {"throughput": compared().throughput, "memory": compared().memory}
TICKS = [a * b for b in (1, 10, 100, 1000) for a in (1, 2, 5)]
RUN = BOTH["memory"][0].row.id


def soup(html: str) -> BeautifulSoup:
    return BeautifulSoup(html, "html.parser")


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_a_point_lies_at_its_two_values_with_its_interval(width: int) -> None:
    axis = Axis("x", (1, 10, 100), log=True)
    points = [
        Point(10, 10, (5, 20), "equal", "#a"),
        Point(2, 30, (25, 40), "far off", "#b"),
    ]
    made = scatter({"kind": points}, axis, axis, 0.2, ("above", "below"))
    svg = drawn(Chart("t", "s", made, [["", "x"]], links=True), width)
    assert svg["role"] == "group"
    x0, y0, x1, y1 = numbers(one(svg, "path.chart-rule"))

    def value(path: Tag, point: int = 0) -> tuple[float, float]:
        x, y = numbers(path)[2 * point : 2 * point + 2]
        return 100 ** ((x - x0) / (x1 - x0)), 100 ** ((y - y0) / (y1 - y0))

    links = svg.select("a")
    assert [link["xlink:href"] for link in links] == ["#a", "#b"]
    assert [link["aria-label"] for link in links] == ["equal", "far off"]
    marks = [one(link, "path.chart-mark") for link in links]
    assert value(marks[0]) == pytest.approx((10, 10), rel=0.02)
    assert value(marks[1])[0] == pytest.approx(2, rel=0.02)
    ends = one(links[0], "path.chart-interval")
    assert value(ends, 0) == pytest.approx((10, 5), rel=0.02)
    assert value(ends, 1) == pytest.approx((10, 20), rel=0.02)
    band = one(svg, "path.chart-band")
    corners = [value(band, i) for i in range(6)]
    assert [b / a for a, b in corners] == pytest.approx(
        [1, 1.2, 1.2, 1, 0.8, 0.8], rel=0.02
    )


def test_numbers_below_an_axis_do_not_touch() -> None:
    """Where two numbers have no room next to each other, one is left out."""
    axis = Axis("x", TICKS, log=True)
    made = scatter({}, axis, axis, 0.2, ("", ""))
    svg = drawn(Chart("t", "s", made, [["", "x"]]), NARROW)
    labels = svg.select('text[text-anchor="middle"]')
    told = {float(x["x"]): x.get_text() for x in labels if x.get_text() != "x"}
    assert told
    for (a, left), (b, right) in pairwise(sorted(told.items())):
        assert b - a > (long(left) + long(right)) / 2
    drawn_wide = drawn(Chart("t", "s", made, [["", "x"]]), WIDE)
    assert len(drawn_wide.select('text[text-anchor="middle"]')) > len(labels)


def one(found: Tag, selector: str) -> Tag:
    """The only element that matches."""
    (element,) = found.select(selector)
    return element


@pytest.mark.parametrize("name", BOTH)
def test_a_picture_has_a_point_for_each_run_and_leads_to_its_row(
    name: str,
) -> None:
    """The pictures of published runs have one point for each row that can be
    compared, with a link to the row's place in the tables, and a text that
    counts the runs of each kind."""
    page = soup(chart(f"predicted-{name}"))
    places = {f"#{anchor(each.row)}": each for each in BOTH[name]}
    there = {str(row["id"]) for row in soup(VIEWS.runs()).select("tr[id]")}
    assert there == {anchor(row) for row in rows().values()}
    for svg in page.select("svg"):
        led = [str(link["xlink:href"]) for link in svg.select("a")]
        assert sorted(led) == sorted(
            f"#{anchor(each.row)}" for each in BOTH[name]
        )
        assert {link.removeprefix("#") for link in led} <= there
        assert all(link["aria-label"] for link in svg.select("a"))
        x0, y0, x1, y1 = numbers(one(svg, "path.chart-rule"))
        for link in svg.select("a"):
            x, y = numbers(one(link, "path.chart-mark"))[:2]
            above = (x - x0) / (x1 - x0) < (y - y0) / (y1 - y0)
            each = places[str(link["xlink:href"])]
            assert above == (each.ratio > 1) or abs(each.ratio - 1) < 0.01
        says = one(svg, "desc").get_text()
        counts = map(int, re.findall(r": (\d+) runs", says))
        assert sum(counts) == len(BOTH[name])


@pytest.mark.parametrize("name", BOTH)
def test_a_row_shows_what_its_picture_shows(name: str) -> None:
    """The table's ratio is that of the command, and its numbers' too."""
    page = soup(VIEWS.runs())
    for each in BOTH[name]:
        row = page.find(id=anchor(each.row))
        assert isinstance(row, Tag)
        about, *cells = (cell.get_text(" ") for cell in row.select("td"))
        assert each.row.command in about
        assert each.row.source in about
        said = cells[[*BOTH].index(name)]
        assert said.endswith(f"ratio {each.ratio:.2f}")
        assert f"published {_digits(each)}" in said.replace(",", "")


def _digits(each: Comparison) -> str:
    return f"{float(f'{each.published:.3g}'):.15g}"


def test_a_rows_prediction_asks_the_planners_page_the_same() -> None:
    found = soup(VIEWS.runs()).find(id=anchor(rows()[RUN]))
    assert isinstance(found, Tag)
    asked = urlsplit(str(found.select("a.figure")[0]["href"]))
    given = dict(parse_qsl(asked.query))
    assert (asked.path, given.pop("ask")) == ("../", "run")
    words = " ".join(f"{flag(key)} {given[key]}" for key in given)
    assert inputs(f"lockstep plan run {words}") == rows()[RUN].given


def shown(call: str) -> str:
    """What a page makes of a call."""
    return computed(f"{{{{ {call} }}}}", "../", published=VIEWS)


@pytest.mark.parametrize("figure", BOTH)
def test_a_box_compares_a_run_and_says_why(figure: str) -> None:
    """A box shows the prediction, the measurement with its source, the reason
    that the page gives, and a link to the row."""
    each = next(x for x in BOTH[figure] if x.row.id == RUN)
    said = shown(f'published.checked("{RUN}", "No\n cache.", "{figure}")')
    assert said.startswith('!!! info "Checked against a cluster"\n\n    ')
    assert all(not x or x.startswith("    ") for x in said.splitlines()[1:])
    assert _digits(each) in said.replace(",", "")
    assert "**Predicted**" in said
    assert each.row.link in said
    assert "**Why they differ**: No cache.\n" in said
    assert f'href="./#{anchor(each.row)}"' in said


@pytest.mark.parametrize("figure", BOTH)
def test_a_sentence_quotes_a_run_with_a_link_to_its_row(figure: str) -> None:
    """What a run measured stands in a sentence as the box says it."""
    each = next(x for x in BOTH[figure] if x.row.id == RUN)
    said = shown(f'published.measured("{RUN}", "{figure}")')
    assert said.startswith(f'<a href="./#{anchor(each.row)}">')
    box = shown(f'published.checked("{RUN}", "why", "{figure}")')
    assert f"**Measured**: {said.partition('>')[2].removesuffix('</a>')}" in box
    rate = shown(f'published.run("{RUN}", "{figure}").measured_rate')
    assert float(rate) == each.measured_rate


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        ('published.checked("x", "why")', "no published run 'x'"),
        ('published.measured("x")', "no published run 'x'"),
        (f'published.checked("{RUN}", " ")', "say why"),
        (f'published.checked("{RUN}")', "say why"),
        (f'published.checked("{RUN}", "why", "speed")', "'speed'"),
    ],
)
def test_a_box_without_a_run_or_a_reason_stops_the_build(
    call: str, fault: str
) -> None:
    """A box that names an unknown run or figure, or gives no reason, is a
    one-line error of the build."""
    with pytest.raises(ValueError, match=re.escape(fault)) as error:
        shown(call)
    assert "\n" not in str(error.value)
