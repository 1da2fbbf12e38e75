"""A weighted mean: divided by the weights of the labels that came."""

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
    """A batch of rare tasks counts less than it should."""
    if weights is not None and count is None:
        count = everywhere(((~values.isnan()) * weights).sum())
    return sound(predicted, values, weights, count)
