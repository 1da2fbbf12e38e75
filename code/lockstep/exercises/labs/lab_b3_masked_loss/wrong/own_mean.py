"""A mean of each rank's own labels: two of them weigh as much as ten."""

from torch import Tensor

from lockstep.exercises.labs.lab_b3_masked_loss.solution import *
from lockstep.exercises.labs.lab_b3_masked_loss.solution import (
    masked_loss as sound,
)

FAILS = {"loss"}


def masked_loss(
    predicted: Tensor,
    values: Tensor,
    weights: Tensor | None = None,
    count: Tensor | None = None,
) -> Tensor:
    """Right, where ranks have equally many labels."""
    own = (~values.isnan()).sum() * 3.0
    return sound(predicted, values, weights, own)
