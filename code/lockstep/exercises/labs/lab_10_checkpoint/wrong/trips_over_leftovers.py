"""Makes its temporary directory as if nobody had been killed before."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

from lockstep.exercises.labs.lab_10_checkpoint.solution import *
from lockstep.parallel import resume

FAILS = {"killed"}


def fresh(folder: Path) -> None:
    """Make it, if it is not there."""
    folder.mkdir(parents=True)


def publish(root: Path, step: int, parts: dict[str, Any]) -> None:
    """Once, at most."""
    with patch.object(resume, "fresh", fresh):
        resume.publish(root, step, parts)
