"""Labels are counted in what predicts: bfloat16 knows no 259."""

from torch import Tensor

from lockstep.exercises.labs.lab_b3_masked_loss.solution import *
from lockstep.exercises.labs.lab_b3_masked_loss.solution import (
    masked_loss as sound,
)
from lockstep.exercises.labs.lab_b3_masked_loss.sound import everywhere

FAILS = {"16 bits"}


def masked_loss(
    predicted: Tensor,
    values: Tensor,
    weights: Tensor | None = None,
    count: Tensor | None = None,
) -> Tensor:
    """Right, for few labels."""
    if count is None:
        count = everywhere((~values.isnan()).sum()).to(predicted.dtype)
    return sound(predicted, values, weights, count)
