"""Charts as SVG within a page: bars, lines, intervals, lanes.

A chart is drawn when the site is built, from data that a run recorded or the
planner computed. It has no script and no inline style, so the page's own style
sheet (`docs/assets/charts.css`) colors it for either scheme. It is drawn
twice, for a phone and for a desk, so that its letters keep their size. What it
shows is also a table, folded below it; its name and its text alternative are
what a screen reader says.

No library is used. The nearest, pygal 3.1, writes a style sheet and scripts
into every drawing, and has one layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import log2

from lockstep.explore import svg
from lockstep.explore.svg import escaped, long, place, round_step

# Widths in the units of a drawing, which a screen of 360 CSS pixels and a desk
# show at no less than their size.
NARROW, WIDE = 320, 640
LINE = 19  # from one line of text to the next
# Kinds of fill, line and mark: whoever sees no color sees these.
DASHES = "", "7 4", "2 3", "9 3 2 3", "1 5"
_HATCH = {  # strokes in a tile of 8 by 8, over the fill
    "fill-1": "M-2 6L6 -2M2 10L10 2",
    "fill-2": "M1 2h3M5 6h3",
    "fill-3": "M4 0v8",
    "fill-4": "M0 0L8 8M0 8L8 0",
}

Say = Callable[[float], str]  # a number with its unit, as a reader sees it


@dataclass(frozen=True)
class Series:
    """Points of one line, or of one kind of mark."""

    label: str
    points: Sequence[tuple[float, float]]
    line: bool = True
    marks: bool = True


@dataclass(frozen=True)
class Axis:
    """What an axis measures, and the numbers that stand on it."""

    label: str
    ticks: Sequence[float]
    say: Say = "{:g}".format
    log: bool = False

    def at(self, value: float, low: float, high: float) -> float:
        """Where a value lies when the first and the last tick lie at `low` and
        `high`."""
        scale = log2 if self.log else float
        first, last = scale(self.ticks[0]), scale(self.ticks[-1])
        return low + (high - low) * (scale(value) - first) / (last - first)


def gigabytes(value: float) -> str:
    """Return whole gigabytes: 128 GB."""
    return f"{value / 1e9:.0f} GB"


def ticks(high: float, count: int = 4) -> list[float]:
    """From 0 to `high` or just beyond, in about `count` round steps."""
    step = round_step(high, count, (1, 2, 2.5, 5, 10))
    found = [0.0]
    while found[-1] < high - 1e-9 * high:
        found.append(round(found[-1] + step, 12))
    return found


def bars(
    rows: Mapping[str, Mapping[str, float]],
    axis: Axis,
    rules: Mapping[str, float] | None = None,
    fills: Sequence[int] = range(5),
) -> Drawing:
    """Draw a bar for each row, made of parts that all rows name in one order;
    its sum stands next to its name. Upright rules have a name at a value."""
    parts = [*next(iter(rows.values()))]

    def swatch(canvas: Canvas, i: int, at: float, middle: float) -> None:
        canvas.swatch(fills[i], at, middle)

    def draw(canvas: Canvas) -> None:
        canvas.legend(parts, swatch)
        right = canvas.width - 10
        top = canvas.y
        for name, value in (rules or {}).items():
            at = axis.at(value, 2, right)
            canvas.y = top + LINE
            bottom = canvas.y + len(rows) * (LINE + 20) + 6
            canvas.upright(at, canvas.y, bottom, "chart-rule")
            canvas.text(at, canvas.y - 5, name, "middle")
        for label, values in rows.items():
            canvas.y += LINE + 4
            canvas.text(2, canvas.y - 6, label, kind="halo")
            total = axis.say(sum(values.values()))
            edge = canvas.width - 2
            canvas.text(edge, canvas.y - 6, total, "end", kind="halo")
            begin = 0.0
            for i, value in enumerate(values.values()):
                left = axis.at(begin, 2, right)
                wide = axis.at(begin + value, 2, right) - left
                canvas.box(left, canvas.y, wide, 16, f"fill-{fills[i]}")
                begin += value
            canvas.y += 16
        canvas.across(axis, 2, right, top + 4, canvas.y + 6)

    return draw


def lines(
    series: Sequence[Series],
    x: Axis,
    y: Axis,
    rules: Mapping[str, float] | None = None,
    high: float = 190,
) -> Drawing:
    """Lines and marks over two axes, and upright rules with a name at `x`."""

    def draw(canvas: Canvas) -> None:
        canvas.legend([one.label for one in series], sample)
        canvas.text(2, canvas.y + 12, y.label)
        top, bottom = canvas.y + 26, canvas.y + 26 + high
        left = 10 + max(long(y.say(tick)) for tick in y.ticks)
        right = canvas.width - 12
        for tick in y.ticks:
            at = y.at(tick, bottom, top)
            canvas.path(f"M{place(left)} {place(at)}H{right}", "chart-grid")
            canvas.text(left - 5, at + 4.5, y.say(tick), "end")
        for name, value in (rules or {}).items():
            at = x.at(value, left, right)
            canvas.upright(at, top, bottom, "chart-rule")
            canvas.text(at + 4, top + 12, name)
        for i, one in enumerate(series):
            found = [
                (x.at(a, left, right), y.at(b, bottom, top))
                for a, b in one.points
            ]
            if one.line:
                canvas.line(i, found)
            if one.marks:
                for point in found:
                    canvas.mark(i, *point)
        canvas.across(x, left, right, top, bottom, grid=False)

    def sample(canvas: Canvas, i: int, at: float, middle: float) -> None:
        if series[i].line:
            canvas.line(i, [(at, middle), (at + 22, middle)])
        if series[i].marks:
            canvas.mark(i, at + 11, middle)

    return draw


def stacked(*drawings: Drawing) -> Drawing:
    """Drawings below one another, of the same width."""

    def draw(canvas: Canvas) -> None:
        for one in drawings:
            one(canvas)

    return draw


def intervals(
    rows: Mapping[str, tuple[float, float, float]],
    axis: Axis,
    rules: Mapping[str, float] | None = None,
) -> Drawing:
    """Draw a mark for each row's value, with a bar from its low to its high
    end."""

    def draw(canvas: Canvas) -> None:
        right = canvas.width - 14
        top = canvas.y + LINE
        bottom = top + len(rows) * (LINE + 28) + 4
        for name, value in (rules or {}).items():
            at = axis.at(value, 14, right)
            canvas.upright(at, top - 4, bottom, "chart-rule")
            canvas.text(at, top - 8, name, "middle")
        canvas.y = top
        for label, (value, low, high) in rows.items():
            canvas.y += LINE
            canvas.text(2, canvas.y, label, kind="halo")
            said = f"{axis.say(value)}, {axis.say(low)} to {axis.say(high)}"
            canvas.text(canvas.width - 2, canvas.y, said, "end", kind="halo")
            canvas.y += 12
            ends = [axis.at(end, 14, right) for end in (low, high)]
            canvas.line(0, [(end, canvas.y) for end in ends])
            for end in ends:
                kind = "chart-line chart-stroke-0"
                canvas.upright(end, canvas.y - 5, canvas.y + 5, kind)
            canvas.mark(0, axis.at(value, 14, right), canvas.y)
            canvas.y += 16
        canvas.across(axis, 14, right, top, bottom)

    return draw


@dataclass(frozen=True)
class Point:
    """A point of a scatter plot, with an interval of `y`. `says` names it for a
    screen reader and a tooltip; `leads` is an address."""

    x: float
    y: float
    interval: tuple[float, float]
    says: str
    leads: str


def scatter(
    kinds: Mapping[str, Sequence[Point]],
    x: Axis,
    y: Axis,
    within: float,
    sides: tuple[str, str],
) -> Drawing:
    """Points over two axes that have the same ticks, each with its interval and
    a link. A line shows where `y` is `x`, and a band where it differs by at
    most the share `within`; `sides` name what lies above and below."""

    def draw(canvas: Canvas) -> None:
        canvas.legend([*kinds], lambda on, i, at, m: on.mark(i, at + 11, m))
        canvas.text(2, canvas.y + 12, y.label)
        left = 10 + max(long(y.say(tick)) for tick in y.ticks)
        right = canvas.width - 18
        top = canvas.y + 26
        bottom = top + min(right - left, 430)
        first, last = x.ticks[0], x.ticks[-1]

        def at(a: float, b: float) -> tuple[float, float]:
            return x.at(a, left, right), y.at(b, bottom, top)

        low, high = 1 - within, 1 + within
        band = [(first, first), (first, first * high), (last / high, last)]
        band += [(last, last), (last, last * low), (first / low, first)]
        canvas.path(outline(at(*a) for a in band) + "z", "chart-band")
        for tick in y.ticks:
            beside = y.at(tick, bottom, top)
            canvas.path(f"M{place(left)} {place(beside)}H{right}", "chart-grid")
            canvas.text(left - 5, beside + 4.5, y.say(tick), "end")
        canvas.across(x, left, right, top, bottom)
        canvas.path(outline([at(first, first), at(last, last)]), "chart-rule")
        canvas.text(left + 8, top + 18, sides[0])
        canvas.text(right - 8, bottom - 10, sides[1], "end")
        for kind, points in enumerate(kinds.values()):
            for point in points:
                with canvas.link(point.leads, point.says):
                    ends = [at(point.x, end) for end in point.interval]
                    color = f"chart-interval chart-stroke-{kind}"
                    canvas.path(outline(ends), color)
                    canvas.mark(kind, *at(point.x, point.y))

    return draw


@dataclass(frozen=True)
class Lane:
    """A row of a timeline: spans (begin, end, kind). Kinds are numbered as in
    the legend; without a number the lane's own fill is plain. `told`: what a
    line between two of the lane's moments says (begin, end, words)."""

    label: str
    spans: Sequence[tuple[float, float, int | None]]
    told: Sequence[tuple[float, float, str]] = ()


def lanes(
    groups: Mapping[str, Sequence[Lane]], kinds: Sequence[str], axis: Axis
) -> Drawing:
    """Draw what happened at the same time, in a group for each rank."""

    def draw(canvas: Canvas) -> None:
        canvas.legend(kinds, Canvas.swatch)
        labels = [lane.label for group in groups.values() for lane in group]
        left = 8 + max(map(long, labels))
        right = canvas.width - 14
        top = canvas.y
        for name, group in groups.items():
            canvas.y += LINE + 2
            canvas.text(2, canvas.y - 6, name, strong=True)
            for lane in group:
                canvas.text(2, canvas.y + 13, lane.label)
                for begin, end, words in lane.told:
                    a, b = (axis.at(x, left, right) for x in (begin, end))
                    canvas.measure(a, b, canvas.y, 16, words)
                for kind in dict.fromkeys(kind for *_, kind in lane.spans):
                    found = [
                        (axis.at(a, left, right), axis.at(b, left, right))
                        for a, b, k in lane.spans
                        if k == kind
                    ]
                    canvas.blocks(kind, found, canvas.y, 16)
                canvas.y += 21
        canvas.across(axis, left, right, top + 4, canvas.y + 2)

    return draw


class Canvas(svg.Canvas):
    """A drawing of charts: a kind is a number, its place in the legend."""

    def __init__(self, name: str, width: int) -> None:
        super().__init__(f"{name}-{width}", width, "chart", _HATCH)

    def blocks(
        self,
        kind: int | None,
        found: Iterable[tuple[float, float]],
        top: float,
        high: float,
    ) -> None:
        """Many of one kind, as one path."""
        d = "".join(
            f"M{place(a)} {place(top)}H{place(b)}v{place(high)}H{place(a)}z"
            for a, b in found
        )
        if kind is None:
            self.path(d, "chart-plain")
        else:
            fill = self.fill(f"fill-{kind}", "span")
            self.parts.append(f'<path d="{d}" {fill}/>')

    def plain(
        self, at: float, top: float, wide: float, high: float, kind: int
    ) -> None:
        """Draw a rectangle in the color of a kind, without its hatch."""
        d = f"M{place(at)} {place(top)}h{place(wide)}v{high}H{place(at)}z"
        self.path(d, f"chart-edge chart-fill-{kind}")

    def shape(
        self, at: float, top: float, wide: float, high: float, kind: str
    ) -> None:
        """Draw a rectangle: `fill-0` in a kind's color and hatch, `plain-0` in
        its color alone, `stroke-0` as an outline."""
        look, _, number = kind.partition("-")
        if look == "plain":
            self.plain(at, top, wide, high, int(number))
        elif look == "stroke":
            d = f"M{place(at + 1)} {place(top + 1)}h{place(wide - 2)}"
            self.path(
                f"{d}v{high - 2}H{place(at + 1)}z", f"chart-line chart-{kind}"
            )
        else:
            self.box(at, top, wide, high, kind)

    def upright(self, at: float, top: float, bottom: float, kind: str) -> None:
        """Draw a line from top to bottom."""
        self.path(f"M{place(at)} {place(top)}V{place(bottom)}", kind)

    def measure(
        self, begin: float, end: float, top: float, high: float, words: str
    ) -> None:
        """Draw a line with a foot at both ends, and words on its middle."""
        feet = "".join(
            f"M{place(at)} {place(top)}v{high}" for at in (begin, end)
        )
        along = f"M{place(begin)} {place(top + high / 2)}H{place(end)}"
        self.path(feet + along, "chart-rule")
        self.text((begin + end) / 2, top + 13, words, "middle", kind="halo")

    def line(self, kind: int, points: Sequence[tuple[float, float]]) -> None:
        """Straight from point to point."""
        dash = DASHES[kind] and f' stroke-dasharray="{DASHES[kind]}"'
        self.path(outline(points), f"chart-line chart-stroke-{kind}", dash)

    @contextmanager
    def link(self, leads: str, says: str) -> Iterator[None]:
        """Let what is drawn meanwhile lead to an address."""
        # The theme sets the href of every element that has one, and an SVG
        # element's can't be set.
        said = escaped(says)
        self.parts.append(
            f'<a xlink:href="{escaped(leads)}" aria-label="{said}">'
            f"<title>{said}</title>"
        )
        yield
        self.parts.append("</a>")

    def mark(self, kind: int, x: float, y: float) -> None:
        """Draw a circle, square, triangle, diamond or cross around a point."""
        d = (
            "m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z",
            "m-4 -4h8v8h-8z",
            "m0 -5.5l5 9h-10z",
            "m0 -5.5l5.5 5.5l-5.5 5.5l-5.5 -5.5z",
            "m-4 -4l8 8m0 -8l-8 8",
        )[kind]
        start = f"M{place(x)} {place(y)}"
        self.path(start + d, f"chart-mark chart-stroke-{kind}")

    def swatch(self, kind: int, at: float, middle: float) -> None:
        """Draw a sample of a fill, for the legend."""
        self.box(at, middle - 6, 22, 12, f"fill-{kind}")

    def legend(
        self,
        labels: Sequence[str],
        sample: Callable[[Canvas, int, float, float], None],
    ) -> None:
        """Draw a sample and a name of each kind, in as few lines as fit."""
        lengths = [30 + long(label) for label in labels]
        for kind, x in enumerate(self.flow(lengths, 14, LINE)):
            sample(self, kind, x, self.y + 10)
            self.text(x + 28, self.y + 14.5, labels[kind])
        self.y += LINE + 6

    def across(
        self,
        axis: Axis,
        left: float,
        right: float,
        top: float,
        bottom: float,
        grid: bool = True,
    ) -> None:
        """Draw the axis below a chart, with its grid behind everything else. A
        number that does not fit next to the previous number is left out."""
        taken = 0.0
        for tick in axis.ticks:
            at = axis.at(tick, left, right)
            if grid:
                self.upright(at, top, bottom, "chart-grid")
                self.parts.insert(0, self.parts.pop())
            words = axis.say(tick)
            half = long(words) / 2
            near = min(max(at, half), self.width - half)
            if near - half >= taken:
                self.text(near, bottom + 15, words, "middle")
                taken = near + half + 4
        self.text(self.width / 2, bottom + 33, axis.label, "middle")
        self.y = bottom + 39


def outline(points: Iterable[tuple[float, float]]) -> str:
    """Return a path straight from point to point."""
    return "M" + "L".join(f"{place(x)} {place(y)}" for x, y in points)


Drawing = Callable[[Canvas], None]


@dataclass(frozen=True)
class Chart:
    """A drawing, what it is called, what it says, and its numbers as a table
    whose first row is its head. `links`: its points lead somewhere."""

    title: str
    says: str
    draw: Drawing
    table: Sequence[Sequence[str]]
    links: bool = False

    def html(self, name: str) -> str:
        """As a figure of a page, in one line, since Markdown would end it at an
        empty one. `name` makes ids of the page's own."""
        return (
            f'<figure class="chart" id="chart-{name}">'
            f"{self._svg(name, NARROW)}{self._svg(name, WIDE)}"
            f"<figcaption>{escaped(self.title)}</figcaption>"
            '<details class="chart-data" data-search-exclude="">'
            "<summary>The figures</summary>"
            f"{self._table()}</details></figure>"
        )

    def _svg(self, name: str, width: int) -> str:
        canvas = Canvas(f"chart-{name}", width)
        self.draw(canvas)
        title, says = (f"chart-{name}-{width}-{x}" for x in ("title", "says"))
        kind = "narrow" if width == NARROW else "wide"
        return canvas.svg(
            f'class="chart-{kind}" width="{width}" height="{place(canvas.y)}"'
            f' aria-labelledby="{title} {says}" data-search-exclude=""',
            f'<title id="{title}">{escaped(self.title)}</title>'
            f'<desc id="{says}">{escaped(self.says)}</desc>',
            "group" if self.links else "img",
        )

    def _table(self) -> str:
        head, *rows = self.table
        top = _row(head, '<th scope="col">', "</th>")
        body = "".join(_row(row, "<td>", "</td>") for row in rows)
        return f"<table><thead>{top}</thead><tbody>{body}</tbody></table>"


def _row(cells: Sequence[str], begin: str, end: str) -> str:
    told = "".join(f"{begin}{escaped(cell)}{end}" for cell in cells)
    return f"<tr>{told}</tr>"
