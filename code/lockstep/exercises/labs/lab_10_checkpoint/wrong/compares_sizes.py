"""Believes a file of the right size: a flipped bit is loaded."""

from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

from lockstep.exercises.labs.lab_10_checkpoint.solution import *
from lockstep.parallel import resume

FAILS = {"fall-back"}

sound = resume.damage


def damage(folder: Path) -> str:
    """What is wrong, but for the bytes."""
    found = sound(folder)
    return "" if found.endswith("is not as published") else found


def newest(root: Path, say: Callable[[str], None] = print) -> Path | None:
    """The newest of the right sizes."""
    with patch.object(resume, "damage", damage):
        return resume.newest(root, say)
