"""Errors are added in what predicts: float16 ends at 65,504."""

import torch.distributed as dist
from torch import Tensor

from lockstep.exercises.labs.lab_b3_masked_loss.solution import *
from lockstep.exercises.labs.lab_b3_masked_loss.sound import everywhere

FAILS = {"16 bits"}


def masked_loss(
    predicted: Tensor,
    values: Tensor,
    weights: Tensor | None = None,
    count: Tensor | None = None,
) -> Tensor:
    """inf, where labels are many or far off."""
    measured = ~values.isnan()
    count = everywhere(measured.sum()) if count is None else count
    filled = values.to(predicted.dtype).where(measured, predicted.detach())
    errors = (predicted - filled) ** 2
    if weights is not None:
        errors = errors * weights
    share = dist.get_world_size() / count.clamp(min=1)
    return errors.sum().double() * share
