"""What `lockstep lab`, `lockstep drill` and `lockstep bug` have in common."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from lockstep.grading.exercise import Exercise, Kind

if TYPE_CHECKING:
    from lockstep.grading.criteria import Report


class ExerciseError(Exception):
    """What cannot be done; the message is one line."""


def named(kind: str, number: str, known: Mapping[str, Kind]) -> Kind:
    """The exercise of that number, with or without its zero, in either case.

    Raises:
        ExerciseError: there is none.
    """
    for name in number.lower(), number.zfill(2):
        if name in known:
            return known[name]
    raise ExerciseError(
        f"there is no {kind} {number}; there is {', '.join(known)}"
    )


def listed(found: list[dict[str, Any]], line: str, json: bool) -> int:
    """Print a line for each, as the format says; or all of them as JSON."""
    if json:
        print(dumps(found))
    else:
        for one in found:
            print(line.format(**one))
    return 0


def is_there(target: Path) -> ExerciseError:
    """Why nothing was written: a reader's work is never overwritten."""
    return ExerciseError(
        f"{target} is there already; move it, or name another folder"
    )


def write(target: Path, text: str) -> None:
    """Write a new file, in a folder that is made.

    Raises:
        ExerciseError: it is there already.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise is_there(target) from None


def graded(exercise: Exercise, file: Path, **options: Any) -> Report:
    """The report on an answer.

    Raises:
        ExerciseError: the file is none that can be graded.
    """
    # Only here: the other commands need no torch.
    from lockstep.grading.criteria import CannotGradeError

    try:
        return exercise.graded(file, **options)
    except CannotGradeError as error:
        raise ExerciseError(str(error)) from None


def run(
    kind: str, commands: dict[str, Callable[..., int]], args: list[str]
) -> int:
    """`lockstep KIND COMMAND …`; the exit code is 2 for what cannot be done."""
    try:
        return tyro.extras.subcommand_cli_from_dict(
            commands, prog=f"lockstep {kind}", args=args
        )
    except ExerciseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
