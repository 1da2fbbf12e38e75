"""A rank without labels returns early, and the others wait for its count."""

from torch import Tensor

from lockstep.exercises.labs.lab_b3_masked_loss.solution import *
from lockstep.exercises.labs.lab_b3_masked_loss.solution import (
    masked_loss as sound,
)

FAILS = {"empty ranks"}
SECONDS = 10  # it hangs


def masked_loss(
    predicted: Tensor,
    values: Tensor,
    weights: Tensor | None = None,
    count: Tensor | None = None,
) -> Tensor:
    """Right, while every rank has a label."""
    if values.isnan().all():
        return 0 * predicted.sum()
    return sound(predicted, values, weights, count)
