"""Syncs files and no directory: after a power cut their names may be gone."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

from lockstep.exercises.labs.lab_10_checkpoint.solution import *
from lockstep.parallel import resume

FAILS = {"publish"}


def publish(root: Path, step: int, parts: dict[str, Any]) -> None:
    """Of files that may have no name."""
    with patch.object(resume, "sync", str):
        resume.publish(root, step, parts)
