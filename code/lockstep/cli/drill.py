"""The command `lockstep drill`: the interview trainer in five timed stages."""

import time
from collections.abc import Callable
from json import dumps
from pathlib import Path
from textwrap import indent

from tyro.conf import Positional

from lockstep.cli import exercises
from lockstep.drills import Drill, drills


def named(number: str) -> Drill:
    """Return the drill with that number."""
    return exercises.named("drill", number, drills())


def own(drill: Drill, folder: Path) -> Path:
    """Return the path of the reader's file in a folder."""
    return folder / f"drill_{drill.number}{drill.solution.suffix}"


def listed(json: bool = False) -> int:
    """List all drills.

    Args:
        json: JSON instead of text.
    """
    found = [
        {"drill": number, "title": one.title, "minutes": one.minutes}
        for number, one in drills().items()
    ]
    line = "{drill}  {title}, {minutes} minutes"
    return exercises.listed(found, line, json)


def start(number: Positional[str], folder: Positional[Path] = Path()) -> int:
    """Write a drill's starter file and start its clock.

    Args:
        number: Drill number, as in `lockstep drill list`.
        folder: Folder for the file, created if necessary.
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
    """Grade your file. Exit code 0: full marks. 1: fewer. 2: bad input.

    Args:
        number: Drill number, as in `lockstep drill list`.
        file: Your file, or its folder. The default is the current folder.
        json: JSON instead of text.
        answers: Strong answers even without full marks.
    """
    drill = named(number)
    if file is None or file.is_dir():
        file = own(drill, (file or Path()).resolve())
    gone = minutes(file)
    late = gone is None or gone >= drill.minutes / 2
    report = exercises.graded(drill, file, file.name, late=late)
    if json:
        found = report.as_json()
        found["drill"] = found.pop("lab")
        print(dumps({**found, "minutes": gone}))
        return report.exit_code
    if gone is not None:
        print(f"{gone:.0f} of {drill.minutes} minutes have passed\n")
    if late:
        print(f"From half-time on:\n{drill.told('change')}\n")
    print(report)
    for question, answer in drill.questions:
        print(f"\n{question}")
        if answers or not report.exit_code:
            print(indent(answer, "    "))
    return report.exit_code


def minutes(file: Path) -> float | None:
    """Return the minutes since the drill started, or None without a clock."""
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
    """Run `lockstep drill COMMAND` and return its exit code."""
    return exercises.run("drill", COMMANDS, args)
