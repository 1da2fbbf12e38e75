"""What is saved cannot be restored; what can, is not compared."""

from pathlib import Path

from lockstep.debugging.bugs.answers import bug_03, bug_13

SYMPTOM = "A fresh checkpoint raises; one that loads is never compared."


def prove(trainer: Path, folder: Path) -> None:
    """Each by a run of its own."""
    bug_03.prove(trainer, folder / "same")
    bug_13.prove(trainer, folder / "other")
