"""Takes what `latest` names, if it is there: half a checkpoint, this time."""

from collections.abc import Callable
from pathlib import Path

from lockstep.exercises.labs.lab_10_checkpoint.solution import *
from lockstep.parallel import resume

FAILS = {"fall-back"}


def newest(root: Path, say: Callable[[str], None] = print) -> Path | None:
    """What the pointer says."""
    if (root / "latest").exists():
        return root / (root / "latest").read_text()
    return resume.newest(root, say)
