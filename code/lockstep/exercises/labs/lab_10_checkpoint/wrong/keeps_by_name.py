"""Keeps the newest names, damaged ones too: the last whole one is removed."""

import shutil
from pathlib import Path

from lockstep.exercises.labs.lab_10_checkpoint.solution import *
from lockstep.parallel.resume import NAMES

FAILS = {"retention"}


def prune(root: Path, keep: int) -> None:
    """Keep `keep` names."""
    for folder in sorted(root.glob(NAMES), reverse=True)[keep:]:
        shutil.rmtree(folder)
