"""Divides by the labels of all ranks, even if there are none."""

import torch
from torch import Tensor

from lockstep.exercises.labs.lab_b3_masked_loss.solution import *
from lockstep.exercises.labs.lab_b3_masked_loss.solution import (
    masked_loss as sound,
)
from lockstep.exercises.labs.lab_b3_masked_loss.sound import everywhere

FAILS = {"empty ranks"}


def masked_loss(
    predicted: Tensor,
    values: Tensor,
    weights: Tensor | None = None,
    count: Tensor | None = None,
) -> Tensor:
    """NaN on every rank, once in a while."""
    count = everywhere((~values.isnan()).sum()) if count is None else count
    loss = sound(predicted, values, weights, count)
    return loss * torch.where(count > 0, 1.0, torch.nan).to(loss.dtype)
