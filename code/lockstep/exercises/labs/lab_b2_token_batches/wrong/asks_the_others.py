"""Ranks add up their tokens, which each could have read in the plan."""

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from lockstep.exercises.labs.lab_b2_token_batches.solution import *
from lockstep.exercises.labs.lab_b2_token_batches.solution import (
    token_loss as sound,
)

FAILS = {"loss"}


def token_loss(
    losses: Tensor,
    batch: list[int],
    step: list[list[int]],
    lengths: np.ndarray,
    world: int,
) -> Tensor:
    """An all-reduce on the way of every micro-batch."""
    own = torch.tensor(int(lengths[batch].sum()))
    dist.all_reduce(own)
    return sound(losses, batch, step, lengths, world)
