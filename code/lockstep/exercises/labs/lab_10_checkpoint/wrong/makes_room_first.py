"""Removes the older checkpoints before the new one is published."""

import shutil
from pathlib import Path
from typing import Any

import torch.distributed as dist

from lockstep.exercises.labs.lab_10_checkpoint.solution import *
from lockstep.parallel import resume

FAILS = {"killed"}


def publish(root: Path, step: int, parts: dict[str, Any]) -> None:
    """Where there is room, now."""
    if dist.get_rank() == 0:
        for folder in root.glob(resume.NAMES):
            shutil.rmtree(folder)
    resume.publish(root, step, parts)
