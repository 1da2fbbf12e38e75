"""The simulated fleets as tables, next to what was published."""

from typing import Any

from lockstep.experiments.fleet.reports import REPORTS, Report
from lockstep.experiments.markdown import sections, table
from lockstep.planner.figures import flag

Found = dict[str, Any]


def tables(found: Found) -> str:
    """All of them, in one text."""
    return sections(found, published, mttf, spares, assumed, handled, ettr)


def published(found: Found) -> str:
    """Goodput: published, simulated, by the formula, and why they differ."""
    rows = []
    for name, report in REPORTS.items():
        if report.goodput is None:
            continue
        one = found["reports"][name]
        rows.append(
            [
                linked(report),
                ("over " if report.at_least else "")
                + f"{100 * report.goodput:.3g} %",
                interval(one["goodput"]),
                share(one["formula"]),
                report.why,
            ]
        )
    head = ["fleet", "published", "simulated", "Daly", "the difference"]
    return left_at_the_end(table(head, rows))


def mttf(found: Found) -> str:
    """Mean time to failure, in hours."""
    rows = []
    for name, report in REPORTS.items():
        if report.mttf_hours is None:
            continue
        one = found["reports"][name]["mttf_hours"]
        rows.append(
            [
                linked(report),
                f"{report.mttf_hours:.1f} h",
                f"{one['mean']:.1f} h ({one['low']:.1f} to {one['high']:.1f})",
            ]
        )
    return table(["fleet", "published", "simulated"], rows)


def spares(found: Found) -> str:
    """Goodput by the number of spare nodes."""
    rows = [
        [
            f"{one['spares']}",
            share(one["goodput"]),
            share(one["nodes"]),
            share(one["formula"]),
        ]
        for one in found["spares"]
    ]
    return table(["spares", "goodput", "waiting for nodes", "Daly"], rows)


def assumed(found: Found) -> str:
    """How the goodput depends on the inputs that were not published."""
    rows = []
    for name, report in REPORTS.items():
        one = found["reports"][name]
        for names, (halved, doubled) in one["varied"].items():
            rows.append(
                [
                    named(report),
                    *described(report, names.split("+")),
                    share(halved),
                    share(one["goodput"]["mean"]),
                    share(doubled),
                ]
            )
    head = ["fleet", "assumed", "value", "halved", "as assumed", "doubled"]
    return table(head, rows)


def handled(found: Found) -> str:
    """A failure's cost and the goodput, by the way to handle failures."""
    rows = [
        [
            name,
            f"{one['minutes']:.0f}",
            f"{100 * one['formula']:.0f} %",
            f"{100 * one['simulated']:.0f} %",
        ]
        for name, one in found["handled"].items()
    ]
    head = ["failures are handled", "minutes", "formula", "simulated"]
    return table(head, rows)


def ettr(found: Found) -> str:
    """Goodput, published and simulated, of fleets of four companies."""
    rows = []
    for name in ("byterobust", "llama3", "megascale", "opt"):
        report = REPORTS[name]
        goodput = 100 * (report.goodput or 0)
        rows.append(
            [
                f"[{named(report)}]({report.url})",
                f"{report.fleet.gpus:,}",
                f"{'over ' if report.at_least else ''}{goodput:.0f} %",
                f"{100 * found['reports'][name]['goodput']['mean']:.0f} %",
            ]
        )
    return table(["fleet", "GPUs", "published", "simulated"], rows)


def described(report: Report, names: list[str]) -> tuple[str, str]:
    """An input's name and value, or that these are all."""
    if len(names) > 1:
        return "all times together", ""
    value = getattr(report.fleet, names[0])
    said = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"`{flag(names[0])}`", said


def named(report: Report) -> str:
    """The first words of a report's title, which are its name."""
    return report.title.split(",")[0]


def linked(report: Report) -> str:
    """A report's title, with its source."""
    return f"[{report.title}]({report.url})"


def share(value: float) -> str:
    """41.2 %."""
    return f"{100 * value:.1f} %"


def interval(value: dict[str, float]) -> str:
    """41.2 % (39.0 to 43.1)."""
    low, high = (f"{100 * value[key]:.1f}" for key in ("low", "high"))
    spread = f"({low} to {high})".replace(" ", "\N{NO-BREAK SPACE}")
    return f"{share(value['mean'])} {spread}"


def left_at_the_end(text: str) -> str:
    """The table with words, not numbers, in its last column."""
    head, rule, *rows = text.splitlines(keepends=True)
    return "".join([head, rule.replace("---: |\n", "--- |\n"), *rows])
