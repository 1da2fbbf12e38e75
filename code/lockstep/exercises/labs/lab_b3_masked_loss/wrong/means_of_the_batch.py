"""Tasks count alike within each batch: one label is worth a full column."""

import torch.distributed as dist
from torch import Tensor

from lockstep.exercises.labs.lab_b3_masked_loss.solution import *
from lockstep.exercises.labs.lab_b3_masked_loss.solution import (
    masked_loss as sound,
)
from lockstep.exercises.labs.lab_b3_masked_loss.sound import everywhere

FAILS = {"by task"}


def masked_loss(
    predicted: Tensor,
    values: Tensor,
    weights: Tensor | None = None,
    count: Tensor | None = None,
) -> Tensor:
    """The right objective for all rows at once, another for a batch."""
    if weights is None or count is not None:
        return sound(predicted, values, weights, count)
    measured = ~values.isnan()
    counts = everywhere(measured.sum(0)).clamp(min=1)
    errors = (predicted - values.where(measured, predicted.detach())) ** 2
    return (errors.sum(0) / counts).mean() * dist.get_world_size()
