"""Divides by all cells, as the mean over a masked matrix does."""

import torch
from torch import Tensor

from lockstep.exercises.labs.lab_b3_masked_loss.solution import *
from lockstep.exercises.labs.lab_b3_masked_loss.solution import (
    masked_loss as sound,
)
from lockstep.exercises.labs.lab_b3_masked_loss.sound import everywhere

FAILS = {"loss"}


def masked_loss(
    predicted: Tensor,
    values: Tensor,
    weights: Tensor | None = None,
    count: Tensor | None = None,
) -> Tensor:
    """Right, where every cell was measured."""
    cells = everywhere(torch.tensor(values.numel()))
    return sound(predicted, values, weights, cells)
