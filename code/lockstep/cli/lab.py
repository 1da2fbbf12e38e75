"""The command `lockstep lab`: starters to fill in, and their graders."""

from collections.abc import Callable
from json import dumps
from pathlib import Path

from tyro.conf import Positional

from lockstep.cli import exercises
from lockstep.labs import Lab, labs
from lockstep.labs.starters import starter


def named(number: str) -> Lab:
    """Return the lab with that number."""
    return exercises.named("lab", number, labs())


def own(lab: Lab) -> str:
    """Return the name of the reader's file."""
    return f"{lab.name}.py"


def listed(json: bool = False) -> int:
    """List all labs.

    Args:
        json: JSON instead of text.
    """
    found = [
        {"lab": number, "title": lab.title} for number, lab in labs().items()
    ]
    return exercises.listed(found, "{lab}  {title}", json)


def start(number: Positional[str], folder: Positional[Path] = Path()) -> int:
    """Write a lab's starter file.

    Args:
        number: Lab number, as in `lockstep lab list`.
        folder: Folder for the file, created if necessary.
    """
    lab = named(number)
    return written(starter(lab), folder / own(lab))


def solution(number: Positional[str], folder: Positional[Path] = Path()) -> int:
    """Write a solution of a lab.

    Args:
        number: Lab number, as in `lockstep lab list`.
        folder: Folder for the file, created if necessary.
    """
    lab = named(number)
    text = lab.file("solution").read_text("utf-8")
    return written(text, folder / f"{lab.name}_solution.py")


def written(text: str, target: Path) -> int:
    """Write a file of a lab, and never overwrite one."""
    exercises.write(target, text)
    print(target)
    return 0


def grade(
    number: Positional[str], file: Positional[Path], json: bool = False
) -> int:
    """Grade your answer. Exit code 0: full marks. 1: fewer. 2: bad input.

    Args:
        number: Lab number, as in `lockstep lab list`.
        file: Your file, or its folder.
        json: JSON instead of text.
    """
    lab = named(number)
    report = exercises.graded(lab, file, own(lab))
    print(dumps(report.as_json()) if json else report)
    return report.exit_code


COMMANDS: dict[str, Callable[..., int]] = {
    "list": listed,
    "start": start,
    "solution": solution,
    "grade": grade,
}


def main(args: list[str]) -> int:
    """Run `lockstep lab COMMAND` and return its exit code, 2 for bad input."""
    return exercises.run("lab", COMMANDS, args)
