"""Rank 0 looks and all believe it; one of them has no such checkpoint."""

from collections.abc import Callable
from pathlib import Path

import torch.distributed as dist

from lockstep.exercises.labs.lab_10_checkpoint.solution import *
from lockstep.parallel.resume import NAMES, damage

FAILS = {"agreement"}


def newest(root: Path, say: Callable[[str], None] = print) -> Path | None:
    """The newest on rank 0."""
    box: list[str] = [""]
    if dist.get_rank() == 0:
        for folder in sorted(root.glob(NAMES), reverse=True):
            if not (wrong := damage(folder)):
                box = [folder.name]
                break
            say(f"{folder.name}: {wrong}")
    dist.broadcast_object_list(box)
    return root / box[0] if box[0] else None
