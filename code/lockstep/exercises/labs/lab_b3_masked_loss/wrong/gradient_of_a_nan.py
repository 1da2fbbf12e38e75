"""`where` around the square: the value is right, the gradient is 0 · NaN."""

import torch.distributed as dist
from torch import Tensor

from lockstep.exercises.labs.lab_b3_masked_loss.solution import *
from lockstep.exercises.labs.lab_b3_masked_loss.sound import everywhere

FAILS = {"loss", "empty ranks"}


def masked_loss(
    predicted: Tensor,
    values: Tensor,
    weights: Tensor | None = None,
    count: Tensor | None = None,
) -> Tensor:
    """A loss that looks sound, until the first step."""
    measured = ~values.isnan()
    count = everywhere(measured.sum()) if count is None else count
    errors = ((predicted.float() - values) ** 2).where(measured, 0.0)
    if weights is not None:
        errors = errors * weights
    return errors.sum() * dist.get_world_size() / count.clamp(min=1)
