"""Computes every head in every micro-batch, with labels or without."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from lockstep.exercises.labs.lab_b3_masked_loss import solution
from lockstep.exercises.labs.lab_b3_masked_loss.solution import *

FAILS = {"accumulation"}


class Whole:
    """The model, for whatever heads it is asked."""

    def __init__(self, model: Any) -> None:
        self.model, self.no_sync = model, model.no_sync

    def __call__(self, x: Tensor, used: Sequence[int]) -> Tensor:
        """All of them."""
        return self.model(x, range(4))


def step(
    model: Any,
    batches: Sequence[tuple[Tensor, Tensor]],
    weights: Tensor | None = None,
) -> float:
    """The same numbers, and four heads for one."""
    return solution.step(Whole(model), batches, weights)
