"""Divides by positions: padding makes the loss smaller."""

import numpy as np
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
    """A learning rate that depends on who sits beside whom."""
    tokens = sum(int(lengths[one].sum()) for one in step)
    wide = sum(len(one) * int(lengths[one].max()) for one in step)
    return sound(losses, batch, step, lengths, world) * (tokens / wide)
