"""`lockstep drill …`: the interview cut in five stages, by the clock."""

import time
from collections.abc import Callable
from json import dumps
from pathlib import Path
from textwrap import indent

from tyro.conf import Positional

from lockstep.cli import exercises
from lockstep.drills import Drill, drills


def named(number: str) -> Drill:
    """The drill of that number."""
    return exercises.named("drill", number, drills())


def own(drill: Drill, folder: Path) -> Path:
    """The reader's file in a folder."""
    return folder / f"drill_{drill.number}{drill.solution.suffix}"


def listed(json: bool = False) -> int:
    """All drills.

    Args:
        json: for machines.
    """
    found = [
        {"drill": number, "title": one.title, "minutes": one.minutes}
        for number, one in drills().items()
    ]
    line = "{drill}  {title}, {minutes} minutes"
    return exercises.listed(found, line, json)


def start(number: Positional[str], folder: Positional[Path] = Path()) -> int:
    """Write what a drill begins with, and start its clock.

    Args:
        folder: where to; it is made.
    """
    drill = named(number)
    target = own(drill, folder)
    exercises.write(target, drill.start.read_text("utf-8"))
    target.with_suffix(".clock").write_text(str(time.time()), "utf-8")
    print(f"{drill.title}, {drill.minutes} minutes\n")
    print(f"{drill.told('task')}\n")
    print(target)
    return 0


def check(
    number: Positional[str],
    file: Positional[Path | None] = None,
    json: bool = False,
    answers: bool = False,
) -> int:
    """Grade what is there: exit code 0 for full marks, 1 for less.

    Args:
        file: drill_N.py of this folder, if none is named.
        json: for machines.
        answers: show the strong answers before there are full marks.
    """
    drill = named(number)
    file = file or own(drill, Path())
    gone = minutes(file)
    late = gone is None or gone >= drill.minutes / 2
    report = exercises.graded(drill, file, late=late)
    if json:
        found = report.as_json()
        found["drill"] = found.pop("lab")
        print(dumps({**found, "minutes": gone}))
        return report.exit_code
    if gone is not None:
        print(f"{gone:.0f} of {drill.minutes} minutes are gone\n")
    if late:
        print(f"From half-time on:\n{drill.told('change')}\n")
    print(report)
    for question, answer in drill.questions:
        print(f"\n{question}")
        if answers or not report.exit_code:
            print(indent(answer, "    "))
    return report.exit_code


def minutes(file: Path) -> float | None:
    """Since its drill was started; None without a clock beside the file."""
    try:
        begun = float(file.with_suffix(".clock").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return (time.time() - begun) / 60


COMMANDS: dict[str, Callable[..., int]] = {
    "list": listed,
    "start": start,
    "check": check,
}


def main(args: list[str]) -> int:
    """`lockstep drill COMMAND …`; the exit code is 2 for what it cannot do."""
    return exercises.run("drill", COMMANDS, args)
