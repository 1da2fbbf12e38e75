"""Every rank gets all cells, to count them."""

from typing import Any

import torch.distributed as dist
from torch import Tensor

from lockstep.exercises.labs.lab_b3_masked_loss.solution import *
from lockstep.exercises.labs.lab_b3_masked_loss.solution import (
    masked_loss as sound,
)

FAILS = {"bytes"}


def masked_loss(
    predicted: Tensor,
    values: Tensor,
    weights: Tensor | None = None,
    count: Tensor | None = None,
) -> Tensor:
    """Right, for a byte a cell of every rank."""
    if count is None:
        masks: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(masks, ~values.isnan())
        count = sum(one.sum() for one in masks)
    return sound(predicted, values, weights, count)
