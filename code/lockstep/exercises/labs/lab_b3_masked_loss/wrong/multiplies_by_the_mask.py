"""Masks the error after the difference: NaN times 0 is NaN."""

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
    """Right, where every cell was measured."""
    measured = ~values.isnan()
    count = everywhere(measured.sum()) if count is None else count
    errors = (predicted.float() - values) ** 2 * measured
    if weights is not None:
        errors = errors * weights
    return errors.sum() * dist.get_world_size() / count.clamp(min=1)
