"""`lockstep lab …`: a starter to fill in, and a grader for it."""

from collections.abc import Callable
from json import dumps
from pathlib import Path

from tyro.conf import Positional

from lockstep.cli import exercises
from lockstep.labs import Lab, labs
from lockstep.labs.starters import starter


def named(number: str) -> Lab:
    """The lab of that number."""
    return exercises.named("lab", number, labs())


def listed(json: bool = False) -> int:
    """All labs.

    Args:
        json: for machines.
    """
    found = [
        {"lab": number, "title": lab.title} for number, lab in labs().items()
    ]
    return exercises.listed(found, "{lab}  {title}", json)


def start(number: Positional[str], folder: Positional[Path] = Path()) -> int:
    """Write a lab's starter.

    Args:
        folder: where to; it is made.
    """
    lab = named(number)
    return written(starter(lab), folder / f"{lab.name}.py")


def solution(number: Positional[str], folder: Positional[Path] = Path()) -> int:
    """Write one solution of a lab.

    Args:
        folder: where to; it is made.
    """
    lab = named(number)
    text = lab.file("solution").read_text("utf-8")
    return written(text, folder / f"{lab.name}_solution.py")


def written(text: str, target: Path) -> int:
    """Write a part of a lab; what is there stays."""
    exercises.write(target, text)
    print(target)
    return 0


def grade(
    number: Positional[str], file: Positional[Path], json: bool = False
) -> int:
    """Grade your answer, for yourself: exit code 0 for full marks, 1 for less.

    Args:
        file: with the starter's names.
        json: for machines.
    """
    report = exercises.graded(named(number), file)
    print(dumps(report.as_json()) if json else report)
    return report.exit_code


COMMANDS: dict[str, Callable[..., int]] = {
    "list": listed,
    "start": start,
    "solution": solution,
    "grade": grade,
}


def main(args: list[str]) -> int:
    """`lockstep lab COMMAND …`; the exit code is 2 for what cannot be done."""
    return exercises.run("lab", COMMANDS, args)
