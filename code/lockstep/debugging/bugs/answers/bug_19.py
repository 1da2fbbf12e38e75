"""Updates per micro-batch, on a task that cannot tell."""

from pathlib import Path

from lockstep.debugging.bugs.answers import bug_07, bug_17

SYMPTOM = (
    "Labels are random, so nobody sees that each micro-batch is an update."
)


def prove(trainer: Path, folder: Path) -> None:
    """Each by a run of its own."""
    bug_17.prove(trainer, folder / "labels")
    bug_07.prove(trainer, folder / "updates")
