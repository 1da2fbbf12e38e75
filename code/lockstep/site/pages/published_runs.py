"""Published runs on pages: charts, tables, and the box that checks one run.

Everything is computed from the rows and the planner when the site is built.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import log
from statistics import median
from textwrap import indent
from urllib.parse import urlencode

from lockstep.experiments.markdown import table
from lockstep.experiments.published_runs.calculators import (
    Calculator,
    calculators,
    ratios,
)
from lockstep.experiments.published_runs.causes import by_cause
from lockstep.experiments.published_runs.compare import (
    LEFT_OPEN,
    UNITS,
    Comparison,
    Summary,
    compared,
    grouped,
    kind,
    share,
    summary,
)
from lockstep.experiments.published_runs.fitted import block
from lockstep.experiments.published_runs.rows import Row, rows
from lockstep.explore.svg import escaped
from lockstep.planner.figures import grouped as in_groups
from lockstep.planner.figures import percent
from lockstep.planner.questions import QUESTIONS
from lockstep.site.pages.charts import Axis, Chart, Point, scatter

PAGE = "planner/predicted-and-published/"
WITHIN = 0.2  # the band of the charts
FIGURES = {"throughput": "TFLOP/s per GPU", "memory": "GB"}


def chart(name: str) -> Chart:
    """Return the scatter plot of `throughput` or of `memory`."""
    found = _found(name)
    unit = FIGURES[name]
    groups = grouped(found, kind)
    steps = _steps(
        [
            value
            for one in found
            for value in (one.rate, one.measured_rate, *one.rates)
        ]
    )
    above, below = {
        "throughput": ("predicted too fast", "predicted too slow"),
        "memory": ("predicted too much", "predicted too little"),
    }[name]
    sums = {group: summary(members) for group, members in groups.items()}
    return Chart(
        f"Predicted and published {name}, {len(found)} runs; the band is"
        f" ±{percent(WITHIN)}",
        f"A scatter plot over two logarithmic axes, {unit}. The diagonal is"
        " where the prediction equals the measurement. "
        + " ".join(
            f"{group}: {one.rows} runs, predicted over published from"
            f" {one.least:.2f} to {one.most:.2f}, median {one.ratio:.2f}."
            for group, one in sums.items()
        ),
        scatter(
            {
                group: [
                    Point(
                        one.measured_rate,
                        one.rate,
                        one.rates,
                        f"{called(one.row)}: {said(one)}",
                        f"#{anchor(one.row)}",
                    )
                    for one in members
                ]
                for group, members in groups.items()
            },
            Axis(f"published, {unit}", steps, "{:g}".format, True),
            Axis(f"predicted, {unit}", steps, "{:g}".format, True),
            WITHIN,
            (above, below),
        ),
        [
            ["runs", "number", "median ratio", "least", "most"],
            *(
                [
                    group,
                    str(one.rows),
                    *(f"{x:.2f}" for x in (one.ratio, one.least, one.most)),
                ]
                for group, one in sums.items()
            ),
        ],
        links=True,
    )


def _found(name: str) -> list[Comparison]:
    if name not in FIGURES:
        raise ValueError(f"{name!r} is none of {', '.join(FIGURES)}")
    both = compared()
    return both.throughput if name == "throughput" else both.memory


def _steps(values: Iterable[float]) -> list[float]:
    """Return 1, 2, 5, 10 and so on, from below the least value to above the
    most."""
    every = [*values]
    low, high = min(every), max(every)
    steps = [a * 10.0**power for power in range(-2, 8) for a in (1, 2, 5)]
    first = max(i for i, step in enumerate(steps) if step <= low)
    last = min(i for i, step in enumerate(steps) if step >= high)
    return steps[first : last + 1]


def anchor(row: Row) -> str:
    """Return the anchor of a row."""
    return f"run-{row.id}"


def called(row: Row) -> str:
    """Describe a run in a few words: model, GPUs, parallelism."""
    return (
        f"{row.model}, {row.given['gpus']:,} × {row.hardware.split(',')[0]},"
        f" {row.parallelism}"
    )


def said(one: Comparison) -> str:
    """Return both figures as a phrase."""
    return f"predicted {_predicted(one)}, published {_published(one)}"


def _predicted(one: Comparison) -> str:
    low, high = map(digits, one.interval)
    return f"{digits(one.predicted)} ({low} to {high}) {UNITS[one.figure]}"


def _published(one: Comparison) -> str:
    return f"{digits(one.published)} {UNITS[one.figure]}"


def digits(value: float) -> str:
    """Round to three digits: 1,060, 25.3, 0.514."""
    rounded = float(f"{value:.3g}")
    return in_groups(rounded) if rounded >= 1000 else f"{rounded:g}"


@dataclass(frozen=True)
class Views:
    """Show published runs on a page.

    Args:
        planner: the address of the planner's page, from the page that asks.
        page: the address of the page with all runs, likewise.
    """

    planner: str
    page: str

    def summary(self, name: str) -> Said:
        """Return the summary of `throughput` or of `memory`."""
        return Said(summary(_found(name)))

    def verdicts(self, verdict: str) -> int:
        """Return how many runs the planner gives this verdict."""
        return [*compared().verdicts.values()].count(verdict)

    def left_open(self) -> str:
        """Return a list of the runs that ran and don't fit, with reasons."""
        reasons: dict[str, list[str]] = {}
        for name, why in LEFT_OPEN.items():
            link = f"[{called(rows()[name])}](#{anchor(rows()[name])})"
            reasons.setdefault(why, []).append(link)
        return "\n".join(
            f"- {'; '.join(links)}: {why}." for why, links in reasons.items()
        )

    def unseen(self) -> str:
        """Return a table of the errors on sources that the fit left out."""
        _, *lines = block("throughput, a source left out at a time")
        errors = "median error", "within 10 %", "within 20 %"
        return table(
            ["kind", "runs", "median ratio", "range", *errors],
            [[word.replace("%", " %") for word in line] for line in lines],
        )

    def left_out(self) -> dict[str, str]:
        """Return the errors over all sources that the fit left out: `rows`,
        `error` and `within_20`."""
        lines = block("throughput, a source left out at a time")
        [(_, rows, _, _, error, _, within)] = [
            x for x in lines if x[0] == "all"
        ]
        return {
            "rows": rows,
            "error": error.replace("%", " %"),
            "within_20": within.replace("%", " %"),
        }

    def causes(self) -> str:
        """Return a table of throughput's errors by cause."""
        lines = []
        for cause, (touched, others) in by_cause(_found("throughput")).items():
            if not touched:
                continue
            mine = Said(summary(touched))
            rest = Said(summary(others)).error if others else "–"
            lines.append([cause, mine.rows, mine.ratio, mine.error, rest])
        return table(
            ["the run has", "runs", "median ratio", "median error", "others"],
            lines,
        )

    def calculators(self) -> str:
        """Return a table of the other calculators, and the planner on the same
        runs."""
        mine = {one.row.id: one.ratio for one in _found("throughput")}
        lines = []
        for one in calculators():
            theirs = ratios(one, _found("throughput"))
            lines.append(
                [
                    f"[{one.name}]({one.address}) {one.version}",
                    str(len(theirs)),
                    *_far(theirs.values()),
                    *_far(mine[name] for name in theirs),
                ]
            )
        head = ["calculator", "runs", "median error", "within 20 %"]
        return table([*head, "planner's error", "planner within 20 %"], lines)

    def others(self) -> list[Calculator]:
        """Return the other calculators."""
        return calculators()

    def runs(self) -> str:
        """Return all rows, in a folded table for each kind, with anchors."""
        speeds, memories = (
            {one.row.id: one for one in _found(name)} for name in FIGURES
        )
        folded: dict[str, list[str]] = {}
        for row in rows().values():
            cells = self._about(row)
            for found in (speeds, memories):
                cells += f"<td>{self._cell(found.get(row.id))}</td>"
            line = f'<tr id="{anchor(row)}">{cells}</tr>'
            folded.setdefault(kind(row), []).append(line)
        return "".join(
            f'<details class="runs" data-search-exclude=""><summary>{name}:'
            f" {len(folded[name])} runs</summary><table><thead><tr><th>run</th>"
            "<th>throughput</th><th>memory</th></tr></thead><tbody>"
            f"{''.join(folded[name])}</tbody></table></details>\n"
            for name in sorted(folded, key=str.lower)
        )

    def _about(self, row: Row) -> str:
        source = f'<a href="{escaped(row.link)}">{escaped(row.source)}</a>'
        missing = compared().missing.get(row.id, "")
        return (
            f"<td><strong>{escaped(called(row))}</strong><br>{source}<br>"
            f"<code>{escaped(row.command)}</code>"
            + "".join(
                f"<br>{name}: {escaped(text)}"
                for name, text in (
                    ("Assumed", row.assumed),
                    ("No prediction", missing),
                )
                if text
            )
            + "</td>"
        )

    def _cell(self, one: Comparison | None) -> str:
        if one is None:
            return "–"
        asked = escaped(self._asked(one.row))
        return (
            f'predicted <a class="figure" href="{asked}">{_predicted(one)}</a>'
            f"<br>published {_published(one)}<br>ratio {one.ratio:.2f}"
        )

    def _asked(self, row: Row) -> str:
        """Return the address that asks the planner's page for the row."""
        usual = dict(QUESTIONS["run"].inputs)
        given = {
            name: value
            for name, value in row.given.items()
            if value != usual[name]
        }
        return f"{self.planner}?{urlencode({'ask': 'run', **given})}"

    def run(self, run: str, figure: str = "throughput") -> Comparison:
        """Return one run with its prediction.

        Raises:
            ValueError: no row or figure has that name.
        """
        for one in _found(figure):
            if one.row.id == run:
                return one
        raise ValueError(f"no published run {run!r} with a {figure}")

    def measured(self, run: str, figure: str = "throughput") -> str:
        """Return what a run measured, linked to its row."""
        one = self.run(run, figure)
        href = f"{self.page}#{anchor(one.row)}"
        return f'<a href="{href}">{_published(one)}</a>'

    def checked(
        self, run: str, why: str = "", figure: str = "throughput"
    ) -> str:
        """Return a box that compares one run with the planner.

        Args:
            run: a row's id.
            why: Markdown that explains the difference; it can't be missing.
            figure: throughput or memory.

        Raises:
            ValueError: no row or figure has that name, or no reason.
        """
        one = self.run(run, figure)
        if not why.strip():
            raise ValueError(f"{run}: say why the two figures differ")
        row = one.row
        body = (
            f"{called(row)}.\n\n"
            f"- **Predicted**: {_predicted(one)}\n"
            f"- **Measured**: {_published(one)}, by [{row.origin}]({row.link});"
            f' <a href="{self.page}#{anchor(row)}">the whole row</a>\n'
            f"- **Why they differ**: {' '.join(why.split())}\n"
        )
        return '!!! info "Checked against a cluster"\n\n' + indent(body, "    ")


def _far(ratios: Iterable[float]) -> list[str]:
    """Return the median error and the share within 20 %."""
    every = [*ratios]
    near = share(abs(ratio - 1) <= 0.2 for ratio in every)
    return [
        percent(median(abs(log(ratio)) for ratio in every), 0),
        percent(near, 0),
    ]


class Said:
    """A summary in the words of a sentence."""

    def __init__(self, found: Summary) -> None:
        self.rows = str(found.rows)
        self.ratio = f"{found.ratio:.2f}"
        self.error = percent(found.error, 0)
        self.within_10 = percent(found.within_10, 0)
        self.within_20 = percent(found.within_20, 0)
        self.covered = percent(found.covered, 0)
        self.half_width = percent(found.half_width, 0)
