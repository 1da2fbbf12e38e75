"""`lockstep plan …`: the planner at the command line."""

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, make_dataclass
from json import dumps
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table

from lockstep.cli import fleet
from lockstep.cli.fleet import NUMBER
from lockstep.planner.figures import (
    Figure,
    PlanError,
    decimal,
    quantity,
)
from lockstep.planner.questions import (
    CHOICES,
    QUESTIONS,
    about,
    cluster_of,
)
from lockstep.planner.search import (
    command,
    decides,
    front,
    none_fits,
    reason,
    search,
)

Unprefixed = tyro.conf.arg(name="")


@dataclass(frozen=True)
class Output:
    """The form of an answer."""

    json: bool = False  # JSON in base units, as one object.
    explain: bool = False  # Formula of each figure, step by step.


@dataclass(frozen=True)
class Choice:
    """The layouts to print."""

    may_fit: bool = False  # Layouts too whose interval reaches past the memory.
    front: bool = False  # Only layouts that none beats in both time and memory.
    best: Annotated[float, NUMBER] = 10  # Number of layouts, the fastest first.
    # Rejected layouts too, each with its reason.
    show_rejected: Annotated[bool, tyro.conf.arg(aliases=["--why-not"])] = False


How = Annotated[Output, Unprefixed]
Pick = Annotated[Choice, Unprefixed]
PLAIN = Output()


def flags(asked: str, inputs: list[tuple[str, Any]]) -> type:
    """Return a dataclass of a question's inputs, whose flags tyro reads."""
    fields: list[Any] = []
    for name, default in inputs:
        known = default if default is not None else CHOICES.get(name, [0])[0]
        kind = type(known) if isinstance(known, bool | str) else float
        marks = [tyro.conf.arg(help=explained(asked, name) or None)]
        marks += [NUMBER] if kind is float else []
        rest = [] if default is None else [field(default=default)]
        fields.append((name, Annotated[kind, *marks], *rest))
    return make_dataclass("Inputs", fields, kw_only=True)


# Inputs whose choices the browser's page shows in a list.
LISTED = "hardware", "optimizer", "preset", "trunk"


def explained(asked: str, name: str) -> str:
    """Return the help text of an option, with the names that it takes."""
    said = about(asked, name)
    if name in LISTED:
        said += f". Choose from {', '.join(CHOICES[name])}"
    return said


def question(name: str) -> Callable[..., None]:
    """Return the command that asks one of the planner's questions."""
    asked = QUESTIONS[name]

    def answer(inputs: Any, how: How = PLAIN) -> None:
        show(asked.answer(asdict(inputs)), asked.keys, how)

    return described(answer, name, asked.says, inputs=asked.inputs)


def described(
    function: Callable[..., None],
    name: str,
    says: str,
    inputs: list[tuple[str, Any]],
) -> Callable[..., None]:
    """Return the function with the help text and flag types for tyro."""
    function.__doc__ = says
    function.__annotations__["inputs"] = Annotated[
        flags(name, inputs), Unprefixed
    ]
    return function


def searching(inputs: Any, pick: Pick, how: How = PLAIN) -> None:
    """Print the layouts that fit."""
    cluster = cluster_of(asdict(inputs))
    fit, refused = search(cluster, pick.may_fit)
    if not fit:
        raise none_fits(refused)
    first = (front(fit) if pick.front else fit)[: int(pick.best)]
    keys = "step_seconds", "total_bytes", "mfu"
    if how.json:
        print(
            dumps(
                [
                    c | {key: found[key].value for key in keys}
                    for c, found in first
                ]
            )
        )
        return
    console = Console(highlight=False, soft_wrap=True)
    table = Table(box=None)
    for name in (*fit[0][0], "step", "memory", "mfu"):
        table.add_column(name.replace("_", " "), justify="right")
    for choice, found in first:
        figures = [found[key] for key in keys]
        said = (decimal(one.value, one.formula.unit) for one in figures)
        table.add_row(*map(str, choice.values()), *said)
    console.print(table)
    fits = "may fit" if pick.may_fit else "fit"
    console.print(f"{len(fit)} layouts {fits}, {len(refused)} do not")
    if "assumes" in cluster:
        console.print(f"assumes{cluster['assumes']}")
    for at, (_, found) in enumerate(first, 1):
        if why := decides(found, fit[0][1]):
            console.print(f"{at} is slower by {why}")
    console.print()
    launch, script, options = command(fit[0][1]).partition(".py")
    console.print(launch + script + options.replace(" --", " \\\n  --"))
    if pick.show_rejected:
        for one in refused:
            console.print(reason(*one))
    if how.explain:
        console.print()
        choice, found = fit[0]
        explain(console, {key: found[key] for key in keys})


def show(found: dict[str, Any], keys: tuple[str, ...], how: Output) -> None:
    """Print those of the keys that were found."""
    asked = {key: found[key] for key in keys if key in found}
    if how.json:
        for key in keys:
            asked |= {
                end: found[end]
                for end in (f"{key}_low", f"{key}_high")
                if end in found
            }
        values = {
            key: one.value if isinstance(one, Figure) else one
            for key, one in asked.items()
        }
        print(dumps(dict.fromkeys(keys) | values))
        return
    console = Console(highlight=False, soft_wrap=True)
    for key in ("verdict", "remedy"):
        if key in asked:
            console.print(asked.pop(key))
    for key in ("assumes", "leaves_out"):
        if key in asked:
            console.print(f"{key.replace('_', ' ')} {asked.pop(key).strip()}")
    table = Table(box=None, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column()
    for key, one in asked.items():
        if one == "":  # as `outside`, where nothing is
            continue
        said, interval = str(one).lower(), ""
        if isinstance(one, Figure):
            said = quantity(one.value, one.formula.unit)
            if f"{key}_low" in found:
                low, high = (
                    decimal(found[f"{key}_{end}"].value, one.formula.unit)
                    for end in ("low", "high")
                )
                interval = f"{low} to {high}"
        table.add_row(key.replace("_", " "), said, interval)
    console.print(table)
    if how.explain:
        explain(console, asked)


def explain(console: Console, asked: dict[str, Any]) -> None:
    """All that the figures rest on, each once, line by line."""
    said: list[Figure] = []
    for one in asked.values():
        if isinstance(one, Figure):
            said += [step for step in one.steps() if step not in said]
    for step in said:
        console.print()
        console.print("\n  = ".join(step.derivation()))
        console.print(f"  ({step.formula.source})")


COMMANDS = {name: question(name) for name in QUESTIONS}
SEARCH = QUESTIONS["search"]
COMMANDS["search"] = described(
    searching, "search", SEARCH.says, inputs=SEARCH.inputs
)


def simulating() -> None:
    """Simulate weeks on a fleet that fails: `lockstep plan fleet --help`."""


COMMANDS["fleet"] = simulating


def main(args: list[str]) -> int:
    """`lockstep plan COMMAND …`; the exit code is 2 for what cannot be."""
    try:
        if args[:1] == ["fleet"]:
            return fleet.main(args[1:])
        tyro.extras.subcommand_cli_from_dict(
            COMMANDS, prog="lockstep plan", args=args
        )
    except PlanError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
