"""`lockstep bug …`: a broken trainer to mend, and a grader for the proof."""

from collections.abc import Callable
from json import dumps
from pathlib import Path

from tyro.conf import Positional

from lockstep.cli import exercises
from lockstep.cli.exercises import ExerciseError
from lockstep.debugging.bugs import Bug, bugs


def named(number: str) -> Bug:
    """The bug of that number."""
    return exercises.named("bug", number, bugs())


def listed(json: bool = False) -> int:
    """All bugs, by what somebody saw.

    Args:
        json: for machines.
    """
    found = [
        {"bug": number, "title": bug.title} for number, bug in bugs().items()
    ]
    return exercises.listed(found, "{bug}  {title}", json)


def start(number: Positional[str], folder: Positional[Path] = Path()) -> int:
    """Write a bug's trainer, its complaint, and a template for the answer.

    Args:
        folder: where to; it is made.
    """
    bug = named(number)
    return written(bug.starter(), folder / bug.name)


def solution(number: Positional[str], folder: Positional[Path] = Path()) -> int:
    """Write a strong answer, and the trainer without the bug.

    Args:
        folder: where to; it is made.
    """
    bug = named(number)
    return written(bug.solution(), folder / f"{bug.name}_solution")


def written(files: dict[str, str], target: Path) -> int:
    """Write them into a new folder."""
    try:
        target.mkdir(parents=True)
    except FileExistsError:
        raise exercises.is_there(target) from None
    for name, text in files.items():
        (target / name).write_text(text, encoding="utf-8")
    print(target / "answer.py")
    return 0


def hint(number: Positional[str], k: Positional[int] = 1) -> int:
    """Print a hint; tell `check` how many you took.

    Args:
        k: which one, from 1 on.
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
    """Grade an answer: exit code 0 for full marks, 1 for less.

    Args:
        file: answer.py, with the mended trainer.py beside it.
        hints: that were taken; each costs 5 points.
        json: for machines.
    """
    bug = named(number)
    if not 0 <= hints <= len(bug.constant("HINTS")):
        raise ExerciseError(
            f"bug {bug.number} has {len(bug.constant('HINTS'))} hints"
        )
    report = exercises.graded(bug, file, hints=hints)
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
    """`lockstep bug COMMAND …`; the exit code is 2 for what cannot be done."""
    return exercises.run("bug", COMMANDS, args)
