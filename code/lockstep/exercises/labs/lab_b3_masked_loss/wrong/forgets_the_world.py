"""Divides by all labels, and DDP by the ranks once more."""

import torch.distributed as dist
from torch import Tensor

from lockstep.exercises.labs.lab_b3_masked_loss.solution import *
from lockstep.exercises.labs.lab_b3_masked_loss.solution import (
    masked_loss as sound,
)

FAILS = {"loss", "16 bits"}


def masked_loss(
    predicted: Tensor,
    values: Tensor,
    weights: Tensor | None = None,
    count: Tensor | None = None,
) -> Tensor:
    """A learning rate of a third, on three ranks."""
    return sound(predicted, values, weights, count) / dist.get_world_size()
