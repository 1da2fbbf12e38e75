"""Simulate the published fleets, or show what was simulated.

python -m lockstep.experiments.fleet --help
"""

import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import tyro

from lockstep.experiments.fleet import tables
from lockstep.experiments.fleet.answer import answer
from lockstep.experiments.fleet.recovery import WAYS, cost, lost
from lockstep.experiments.fleet.reports import REPORTS, Report
from lockstep.experiments.fleet.settings import Fleet
from lockstep.experiments.markdown import rewrite
from lockstep.experiments.provenance import write

RESULT = Path(__file__).with_name("result.json")
FACTORS = 0.5, 2
FEWER = 30  # runs of each variation
FIRST = 5  # runs that a test simulates anew
SPARES = 0, 4, 8, 12, 16, 24


def simulated(report: Report) -> dict[str, Any]:
    """A report's fleet: the answer, that of the first few runs, and how the
    answer depends on each input that the report does not publish."""
    found = answer(report.fleet)
    return {
        **asdict(found),
        "why": found.why(),
        "first": asdict(answer(report.fleet, FIRST).goodput),
        "varied": {
            "+".join(names): [
                answer(scaled(report.fleet, names, factor), FEWER).goodput.mean
                for factor in FACTORS
            ]
            for names in varied(report)
        },
    }


def varied(report: Report) -> list[tuple[str, ...]]:
    """Inputs to halve and to double: each that is assumed, then together all
    of which more is worse, that is, neither spares nor an MTBF."""
    each: list[tuple[str, ...]] = [(name,) for name in report.assumed]
    together = tuple(
        name
        for name in report.assumed
        if name != "spares" and "mtbf" not in name
    )
    return [*each, together] if len(together) > 1 else each


def scaled(fleet: Fleet, names: tuple[str, ...], factor: float) -> Fleet:
    """The fleet with these inputs times `factor`."""
    changed: dict[str, Any] = {
        name: type(value)(value * factor)
        for name in names
        for value in [getattr(fleet, name)]
    }
    return replace(fleet, **changed)


def with_spares() -> list[dict[str, float]]:
    """Llama 3's fleet with more and fewer spare nodes."""
    rows = []
    for count in SPARES:
        found = answer(replace(REPORTS["llama3"].fleet, spares=count), FEWER)
        rows.append(
            {
                "spares": count,
                "goodput": found.goodput.mean,
                "nodes": found.shares["nodes"],
                "formula": found.formula,
            }
        )
    return rows


def handled() -> dict[str, dict[str, Any]]:
    """Return for each way to handle failures the minutes of one, the ETTR by
    the formula and by the simulation, and the share of waiting for nodes."""
    rows = {}
    for name, fleet in WAYS.items():
        found = answer(fleet)
        rows[name] = {
            "minutes": cost(fleet) / 60,
            "formula": 1 - lost(fleet),
            "simulated": found.goodput.mean,
            "nodes": found.shares["nodes"],
        }
    return rows


def run(result: Path = RESULT) -> int:
    """Simulate all reports and write what was found: a minute or two.

    Args:
        result: the JSON file to write.
    """
    found = {
        "reports": {name: simulated(one) for name, one in REPORTS.items()},
        "spares": with_spares(),
        "handled": handled(),
    }
    write(found, result)
    return render(result)


def render(result: Path = RESULT) -> int:
    """Write the tables of a result anew."""
    return rewrite(result, tables.tables)


if __name__ == "__main__":
    commands: dict[str, Callable[..., int]] = {"run": run, "render": render}
    sys.exit(
        tyro.extras.subcommand_cli_from_dict(
            commands,
            prog="lockstep.experiments.fleet",
            config=(tyro.conf.OmitArgPrefixes,),
        )
    )
