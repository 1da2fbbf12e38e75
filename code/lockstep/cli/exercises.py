"""Shared code of `lockstep lab`, `lockstep drill` and `lockstep bug`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from lockstep.grading.exercise import Exercise, Kind

if TYPE_CHECKING:
    from lockstep.grading.criteria import Report


class ExerciseError(Exception):
    """Bad input. The message is one line."""


def named(kind: str, number: str, known: Mapping[str, Kind]) -> Kind:
    """Return the exercise with that number, with or without a leading zero.

    Raises:
        ExerciseError: there is no such exercise.
    """
    for name in number.lower(), number.zfill(2):
        if name in known:
            return known[name]
    raise ExerciseError(
        f"unknown {kind} {number}; choose from {', '.join(known)}"
    )


def listed(found: list[dict[str, Any]], line: str, json: bool) -> int:
    """Print one formatted line for each, or all of them as JSON."""
    if json:
        print(dumps(found))
    else:
        for one in found:
            print(line.format(**one))
    return 0


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """Report in one line why a file or folder can't be created.

    Raises:
        ExerciseError: it already exists, or the disk refuses it.
    """
    try:
        yield
    except FileExistsError:
        raise ExerciseError(
            f"{target} already exists; move it, or choose a different folder"
        ) from None
    except OSError as error:
        raise ExerciseError(f"{target}: {error.strerror}") from None


def write(target: Path, text: str) -> None:
    """Write a new file, and create its folder if necessary.

    Raises:
        ExerciseError: the file already exists, or can't be written.
    """
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8") as file:
            file.write(text)


def graded(exercise: Exercise, file: Path, name: str, **options: Any) -> Report:
    """Grade an answer and return the report.

    Args:
        file: The answer, or the folder that holds it.
        name: The answer's file name in that folder.

    Raises:
        ExerciseError: the file can't be graded.
    """
    # Only here: the other commands need no torch.
    from lockstep.grading.criteria import CannotGradeError

    if file.is_dir():
        file = file.resolve() / name  # `.` has no name of its own
    try:
        return exercise.graded(file, **options)
    except CannotGradeError as error:
        raise ExerciseError(str(error)) from None


def run(
    kind: str, commands: dict[str, Callable[..., int]], args: list[str]
) -> int:
    """Run `lockstep KIND COMMAND` and return its exit code, 2 for bad input."""
    try:
        return tyro.extras.subcommand_cli_from_dict(
            commands, prog=f"lockstep {kind}", args=args
        )
    except ExerciseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
