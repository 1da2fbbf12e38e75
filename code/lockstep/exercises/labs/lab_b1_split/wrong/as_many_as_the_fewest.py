"""Ranks gather as many rows as the one with fewest has."""

import torch
import torch.distributed as dist
from torch import Tensor

from lockstep.exercises.labs.lab_b1_split.solution import *
from lockstep.exercises.labs.lab_b1_split.solution import nearest as sound

FAILS = {"neighbors"}


def nearest(test: Tensor, train: Tensor) -> Tensor:
    """Right, where ranks have equally many."""
    rows = torch.tensor(len(train))
    dist.all_reduce(rows, dist.ReduceOp.MIN)
    return sound(test, train[: int(rows)])
