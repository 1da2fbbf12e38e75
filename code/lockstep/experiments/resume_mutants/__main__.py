"""The campaign of random faults, in parts that can be interrupted.

python -m lockstep.experiments.resume_mutants confirm
python -m lockstep.experiments.resume_mutants examine
python -m lockstep.experiments.resume_mutants sound
python -m lockstep.experiments.resume_mutants report
"""

from pathlib import Path

import tyro

from .campaign import ask, ask_sound, confirm, names, report
from .planted import planted

HOME = Path(__file__).parent
FAULTS, SOUND = HOME / "faults.jsonl", HOME / "sound.jsonl"
COUNT, SEED = 240, 1
app = tyro.extras.SubcommandApp()


@app.command(name="confirm")
def confirm_command(
    folder: Path = Path("campaign"), part: tuple[int, int] = (0, 1)
) -> None:
    """Plant the faults, and record which of them matter.

    Args:
        folder: Where trainers run; cleared.
        part: `k n` takes every n-th fault from the k-th on, so that n
            processes can share the work.
    """
    for one in confirm(FAULTS, folder.resolve(), COUNT, SEED, part):
        print(f"{one['name']}: {one['shows'] or 'does not matter'}", flush=True)


@app.command(name="examine")
def examine_command(
    folder: Path = Path("campaign"),
    part: tuple[int, int] = (0, 1),
    again: tuple[str, ...] = (),
) -> None:
    """Examine the faults that matter, each until a question fails.

    Args:
        folder: Where trainers run; cleared.
        part: As for `confirm`.
        again: Names of faults to examine once more.
    """
    faults = dict(names(planted(COUNT, SEED)))
    for one in ask(FAULTS, folder.resolve(), faults, part, frozenset(again)):
        said = f"{one['failed']}: {one['said']}" if one["failed"] else "MISSED"
        print(f"{one['name']}: {said}", flush=True)


@app.command(name="sound")
def sound_command(
    folder: Path = Path("campaign"), part: tuple[int, int] = (0, 1)
) -> None:
    """Examine the sound variants.

    Args:
        folder: Where trainers run; cleared.
        part: As for `confirm`.
    """
    for one in ask_sound(SOUND, folder.resolve(), part):
        print(f"{one['name']}: {one['shows']} {one['failed']}", flush=True)


@app.command(name="report")
def report_command() -> None:
    """Print what the records say."""
    print(report(FAULTS, SOUND))


if __name__ == "__main__":
    app.cli(description=__doc__)
