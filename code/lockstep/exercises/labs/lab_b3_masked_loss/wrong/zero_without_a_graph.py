"""A rank without labels has a constant for a loss, which has no backward."""

import torch
from torch import Tensor

from lockstep.exercises.labs.lab_b3_masked_loss.solution import *
from lockstep.exercises.labs.lab_b3_masked_loss.solution import (
    masked_loss as sound,
)

FAILS = {"empty ranks"}


def masked_loss(
    predicted: Tensor,
    values: Tensor,
    weights: Tensor | None = None,
    count: Tensor | None = None,
) -> Tensor:
    """It counts with the others, at least."""
    loss = sound(predicted, values, weights, count)
    return torch.zeros(()) if values.isnan().all() else loss
