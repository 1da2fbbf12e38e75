"""`lockstep plan fleet`: a job's weeks on a fleet that fails, simulated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from json import dumps
from math import inf
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table
from tyro.constructors import (
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    PrimitiveTypeInfo,
)

from lockstep.experiments.fleet.reports import REPORTS, report
from lockstep.experiments.fleet.settings import KINDS, RUNS, Fleet
from lockstep.planner.figures import number

if TYPE_CHECKING:
    from lockstep.experiments.fleet.answer import Answer, Spread

Unprefixed = tyro.conf.arg(name="")
# As the planner reads numbers: 1e5 is a whole number too.
NUMBER = PrimitiveConstructorSpec(
    nargs=1,
    metavar="N",
    instance_from_str=lambda words: number(words[0]),
    is_instance=lambda value: isinstance(value, int | float),
    str_from_instance=lambda value: [f"{value:g}"],
)
PROG = "lockstep plan fleet"


@dataclass(frozen=True)
class How:
    """What is simulated, and how the answer is printed."""

    report: str = ""
    """Published fleet whose inputs take the place of the defaults."""
    runs: int = RUNS
    """Simulated runs."""
    seed: int = 0
    """Seed of the first run; the others have the next ones."""
    json: bool = False
    """One JSON object instead of text."""


def main(args: list[str]) -> int:
    """Simulate a fleet, and print the answer next to Daly's formula.

    Raises:
        PlanError: an input is out of range.
    """
    registry = ConstructorRegistry()
    registry.primitive_rule(numbers)
    # The report decides on the defaults that --help shows.
    first, _ = tyro.cli(
        How,
        prog=PROG,
        args=args,
        add_help=False,
        return_unknown_args=True,
        registry=registry,
    )
    usual = report(first.report).fleet if first.report else Fleet()

    def ask(
        fleet: Annotated[Fleet, Unprefixed] = usual,
        how: Annotated[How, Unprefixed] = How(),
    ) -> None:
        # Only here: the help and the rest of `plan` do without simpy.
        from lockstep.experiments.fleet.answer import answer

        show(answer(fleet, how.runs, how.seed), fleet, how)

    ask.__doc__ = (
        "The share of weeks that a job trains: failures, recovery and spares"
        f" simulated.\n\nReports: {', '.join(REPORTS)}."
    )
    tyro.cli(ask, prog=PROG, args=args, registry=registry)
    return 0


def numbers(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec | None:
    """Read whole numbers and others alike."""
    return NUMBER if info.type in (int, float) else None


def show(found: Answer, fleet: Fleet, how: How) -> None:
    """Print the answer."""
    if how.json:
        print(dumps(finite(asdict(found)) | {"why": found.why()}))
        return
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"{how.runs} runs of {fleet.days:g} days; nine in ten lie in")
    console.print(
        table(
            [
                ["goodput (ETTR)", *spread(found.goodput, 100, 1, "%")],
                ["hours to a failure", *spread(found.mttf_hours, 1, 2)],
                ["failures", *spread(found.failures, 1, 0)],
            ]
        )
    )
    console.print("\nWhere the hours of a run go")
    console.print(table(went(found.shares, fleet.days * 24)))
    console.print("\nDaly's formula")
    console.print(
        table(
            [
                ["goodput", f"{100 * found.formula:.1f} %", ""],
                ["hours to a failure", f"{found.formula_mttf_hours:.2f}", ""],
                ["seconds to a checkpoint", f"{found.interval:,.0f}", ""],
            ]
        )
    )
    console.print(found.why())


def went(shares: dict[str, float], hours: float) -> list[list[str]]:
    """Share and hours of each kind of time that the runs have."""
    return [
        [name, f"{100 * shares[kind]:.2f} %", f"{shares[kind] * hours:,.1f}"]
        for kind, name in KINDS.items()
        if shares[kind]
    ]


def finite(found: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity: hours to a failure that never came are null."""
    hours = found["mttf_hours"]
    found["mttf_hours"] = {k: v if v < inf else None for k, v in hours.items()}
    return found


def spread(
    value: Spread, scale: float, digits: int, unit: str = ""
) -> list[str]:
    """Format a mean and its interval."""
    mean, low, high = (
        f"{one * scale:,.{digits}f} {unit}".strip()
        for one in (value.mean, value.low, value.high)
    )
    return [mean, f"{low} to {high}"]


def table(rows: Iterable[list[str]]) -> Table:
    """Without a head; numbers to the right."""
    found = Table(box=None, show_header=False)
    found.add_column()
    found.add_column(justify="right")
    found.add_column(justify="right")
    for row in rows:
        found.add_row(*row)
    return found
