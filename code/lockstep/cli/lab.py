"""`lockstep lab …`: a starter to fill in, and a grader for it."""

import sys
from collections.abc import Callable
from json import dumps
from pathlib import Path

import tyro
from tyro.conf import Positional

from lockstep.labs import Lab, labs


class LabError(Exception):
    """What cannot be done; the message is one line."""


def named(number: str) -> Lab:
    """The lab of that number, with or without its zero."""
    known = labs()
    if found := known.get(number.zfill(2)):
        return found
    raise LabError(f"there is no lab {number}; there is {', '.join(known)}")


def listed(json: bool = False) -> int:
    """All labs.

    Args:
        json: for machines.
    """
    found = [
        {"lab": number, "title": lab.title} for number, lab in labs().items()
    ]
    if json:
        print(dumps(found))
    else:
        for one in found:
            print(f"{one['lab']}  {one['title']}")
    return 0


def start(number: Positional[str], folder: Positional[Path] = Path()) -> int:
    """Write a lab's starter.

    Args:
        folder: where to; it is made.
    """
    lab = named(number)
    return written(lab, "starter", folder / f"{lab.name}.py")


def solution(number: Positional[str], folder: Positional[Path] = Path()) -> int:
    """Write one solution of a lab.

    Args:
        folder: where to; it is made.
    """
    lab = named(number)
    return written(lab, "solution", folder / f"{lab.name}_solution.py")


def written(lab: Lab, part: str, target: Path) -> int:
    """Write a part of a lab; what is there stays."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(lab.file(part).read_text("utf-8"))
    except FileExistsError:
        raise LabError(
            f"{target} is there already; move it, or name another folder"
        ) from None
    print(target)
    return 0


def grade(
    number: Positional[str], file: Positional[Path], json: bool = False
) -> int:
    """Grade an answer: exit code 0 for full marks, 1 for less.

    Args:
        file: with the starter's names.
        json: for machines.
    """
    # Only here: the other commands need no torch.
    from lockstep.grading import criteria

    lab = named(number)
    try:
        report = criteria.grade(lab.number, lab.grader, file)
    except criteria.CannotGradeError as error:
        raise LabError(str(error)) from None
    if json:
        print(dumps(report.as_json()))
    else:
        print(report)
    return 0 if report.score == report.full else 1


COMMANDS: dict[str, Callable[..., int]] = {
    "list": listed,
    "start": start,
    "solution": solution,
    "grade": grade,
}


def main(args: list[str]) -> int:
    """`lockstep lab COMMAND …`; the exit code is 2 for what cannot be done."""
    try:
        return tyro.extras.subcommand_cli_from_dict(
            COMMANDS, prog="lockstep lab", args=args
        )
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
