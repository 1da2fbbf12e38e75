"""Each rank takes the newest that it finds whole: two steps in one job."""

from collections.abc import Callable
from pathlib import Path

import torch.distributed as dist

from lockstep.exercises.labs.lab_10_checkpoint.solution import *
from lockstep.parallel.resume import NAMES, damage

FAILS = {"agreement"}


def newest(root: Path, say: Callable[[str], None] = print) -> Path | None:
    """The newest on this rank."""
    for folder in sorted(root.glob(NAMES), reverse=True):
        if not (wrong := damage(folder)):
            return folder
        if dist.get_rank() == 0:
            say(f"{folder.name}: {wrong}")
    return None
