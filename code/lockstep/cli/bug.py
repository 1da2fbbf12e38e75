"""The command `lockstep bug`: broken trainers to fix, and their graders."""

from collections.abc import Callable
from json import dumps
from pathlib import Path

from tyro.conf import Positional

from lockstep.cli import exercises
from lockstep.cli.exercises import ExerciseError
from lockstep.debugging.bugs import Bug, bugs


def named(number: str) -> Bug:
    """Return the bug with that number."""
    return exercises.named("bug", number, bugs())


def listed(json: bool = False) -> int:
    """List all bugs by their symptoms.

    Args:
        json: JSON instead of text.
    """
    found = [
        {"bug": number, "title": bug.title} for number, bug in bugs().items()
    ]
    return exercises.listed(found, "{bug}  {title}", json)


def start(number: Positional[str], folder: Positional[Path] = Path()) -> int:
    """Write a broken trainer, its bug report, and an answer template.

    Args:
        number: Bug number, as in `lockstep bug list`.
        folder: Folder in which to create the bug's folder.
    """
    bug = named(number)
    return written(bug.starter(), folder / bug.name)


def solution(number: Positional[str], folder: Positional[Path] = Path()) -> int:
    """Write a strong answer and the fixed trainer.

    Args:
        number: Bug number, as in `lockstep bug list`.
        folder: Folder in which to create the solution's folder.
    """
    bug = named(number)
    return written(bug.solution(), folder / f"{bug.name}_solution")


def written(files: dict[str, str], target: Path) -> int:
    """Write the files into a new folder."""
    with exercises.writing(target):
        target.mkdir(parents=True)
        for name, text in files.items():
            (target / name).write_text(text, encoding="utf-8")
    print(target / "answer.py")
    return 0


def hint(number: Positional[str], k: Positional[int] = 1) -> int:
    """Print a hint. Tell `lockstep bug check` how many you used.

    Args:
        number: Bug number, as in `lockstep bug list`.
        k: Number of the hint, starting at 1.
    """
    bug = named(number)
    hints = bug.constant("HINTS")
    if not 1 <= k <= len(hints):
        raise ExerciseError(f"bug {bug.number} has hints 1 to {len(hints)}")
    print(hints[k - 1])
    return 0


def check(
    number: Positional[str],
    file: Positional[Path],
    hints: int = 0,
    json: bool = False,
) -> int:
    """Grade an answer. Exit code 0: full marks. 1: fewer. 2: bad input.

    Args:
        number: Bug number, as in `lockstep bug list`.
        file: Your answer.py, next to your fixed trainer.py, or their folder.
        hints: Hints that you used; each costs 5 points.
        json: JSON instead of text.
    """
    bug = named(number)
    if not 0 <= hints <= len(bug.constant("HINTS")):
        raise ExerciseError(
            f"bug {bug.number} has {len(bug.constant('HINTS'))} hints"
        )
    report = exercises.graded(bug, file, "answer.py", hints=hints)
    print(dumps(report.as_json()) if json else report)
    return report.exit_code


COMMANDS: dict[str, Callable[..., int]] = {
    "list": listed,
    "start": start,
    "hint": hint,
    "check": check,
    "solution": solution,
}


def main(args: list[str]) -> int:
    """Run `lockstep bug COMMAND` and return its exit code, 2 for bad input."""
    return exercises.run("bug", COMMANDS, args)
