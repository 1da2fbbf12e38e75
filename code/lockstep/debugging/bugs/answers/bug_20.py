"""Half a checkpoint can be found, and each rank looks for itself."""

from pathlib import Path

from lockstep.debugging.bugs.answers import bug_10, bug_14

SYMPTOM = "A torn checkpoint has the newest name, and ranks look by themselves."


def prove(trainer: Path, folder: Path) -> None:
    """Each by a run of its own."""
    bug_10.prove(trainer, folder / "killed")
    bug_14.prove(trainer, folder / "late")
