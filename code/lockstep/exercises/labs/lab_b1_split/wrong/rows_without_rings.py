"""A molecule without rings is its row: a duplicate has another row."""

from collections.abc import Mapping, Sequence

import torch.distributed as dist

from lockstep.exercises.labs.lab_b1_split.solution import *
from lockstep.exercises.labs.lab_b1_split.sound import assign

FAILS = {"duplicates"}


def split(
    keys: Sequence[str],
    scaffolds: Sequence[str],
    seed: int,
    shares: Mapping[str, float],
    pinned: Mapping[str, str],
) -> list[str]:
    """Right, for data without duplicates."""
    rank = dist.get_rank()
    groups = [
        f"scaffold {one}" if one else f"row {row} of rank {rank}"
        for row, one in enumerate(scaffolds)
    ]
    return assign(groups, seed, shares, pinned)
