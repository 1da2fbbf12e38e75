"""The mean of micro-batches' means: the same mistake once more, in time."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from lockstep.exercises.labs.lab_b3_masked_loss.solution import *
from lockstep.exercises.labs.lab_b3_masked_loss.solution import step as sound

FAILS = {"accumulation"}


def step(
    model: Any,
    batches: Sequence[tuple[Tensor, Tensor]],
    weights: Tensor | None = None,
) -> float:
    """Right, where micro-batches have equally many labels."""
    parts = [sound(model, [one], weights) for one in batches]
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad /= len(parts)
    return sum(parts) / len(parts)
