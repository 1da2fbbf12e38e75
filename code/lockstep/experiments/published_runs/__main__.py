"""Compare the planner's predictions with published runs.

python -m lockstep.experiments.published_runs --help
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from textwrap import shorten
from typing import Annotated, Literal

import tyro

from lockstep.experiments.published_runs.compare import (
    BY,
    UNITS,
    Compared,
    Comparison,
    Summary,
    compared,
    grouped,
    summary,
)
from lockstep.planner.figures import quantity

HEAD = "rows  ratio         range  error  <10 %  <20 %  inside   ±"


@dataclass(frozen=True)
class Settings:
    """What to print."""

    kind: Annotated[  # property by which rows are grouped
        Literal["kind", "hardware", "parallelism", "source"],
        tyro.conf.arg(name="kind"),
    ] = "kind"
    worst: int = 5  # number of rows to list, the furthest off first
    json: bool = False  # one JSON object with all groups and rows


def cells(found: Summary) -> str:
    """Return a summary as the columns of HEAD."""
    ends = f"{found.least:.2f} to {found.most:.2f}"
    return (
        f"{found.rows:4}  {found.ratio:5.2f}  {ends:>12}  {found.error:5.0%}"
        f"  {found.within_10:5.0%}  {found.within_20:5.0%}"
        f"  {found.covered:6.0%}  {found.half_width:4.0%}"
    )


def lines(found: Compared, kind: str, worst: int) -> Iterator[str]:
    """Yield the report's lines."""
    for name, comparisons in (
        ("throughput", found.throughput),
        ("memory", found.memory),
    ):
        groups = grouped(comparisons, BY[kind])
        wide = max(map(len, ["all rows", *groups])) if groups else 0
        yield f"{name:{wide}}  {HEAD}"
        for group, members in groups.items():
            yield f"{group:{wide}}  {cells(summary(members))}"
        if comparisons:
            yield f"{'all rows':{wide}}  {cells(summary(comparisons))}"
        yield ""
    verdicts = Counter(found.verdicts.values()).most_common()
    if verdicts:
        counts = ", ".join(f"{verdict} {count}" for verdict, count in verdicts)
        yield f"verdicts on these runs, which all ran: {counts}"
        yield ""
    every = [*found.throughput, *found.memory]
    every.sort(key=lambda one: one.error, reverse=True)
    if worst:
        yield "furthest off, predicted for published"
    for one in every[:worst]:
        yield said(one)
    for why, count in Counter(found.missing.values()).most_common():
        yield shorten(f"no prediction of {count}: {why}", 80)


def said(one: Comparison) -> str:
    """Return one comparison in a line."""
    predicted = quantity(one.predicted, "").strip()
    published = quantity(one.published, UNITS[one.figure])
    return f"{one.ratio:5.2f}  {predicted} for {published}: {one.row.id}"


def as_json(found: Compared, kind: str) -> str:
    """Return the groups, and each comparison by its row's id."""
    return json.dumps(
        {
            name: {
                "groups": {
                    group: asdict(summary(members))
                    for group, members in grouped(comparisons, BY[kind]).items()
                },
                "rows": {
                    one.row.id: {
                        "figure": one.figure,
                        "published": one.published,
                        "predicted": one.predicted,
                        "interval": one.interval,
                        "ratio": one.ratio,
                    }
                    for one in comparisons
                },
            }
            for name, comparisons in (
                ("throughput", found.throughput),
                ("memory", found.memory),
            )
        }
        | {"verdicts": found.verdicts, "missing": found.missing}
    )


def main(args: list[str] | None = None) -> int:
    """Print how far predictions are from published runs."""
    settings = tyro.cli(
        Settings,
        prog="python -m lockstep.experiments.published_runs",
        description=main.__doc__,
        args=args,
    )
    try:
        found = compared()
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if settings.json:
        print(as_json(found, settings.kind))
        return 0
    print("\n".join(lines(found, settings.kind, settings.worst)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
