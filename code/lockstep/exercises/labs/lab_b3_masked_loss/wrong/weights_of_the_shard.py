"""Each rank weighs tasks by its own rows, and ranks minimize other errors."""

import torch
from torch import Tensor

from lockstep.exercises.labs.lab_b3_masked_loss.solution import *
from lockstep.exercises.labs.lab_b3_masked_loss.solution import (
    task_weights as sound,
)

FAILS = {"by task", "rare tasks"}


def task_weights(values: Tensor) -> Tensor:
    """Right on one process."""
    sound(values)  # it raises where nobody has a label
    counts = (~values.isnan()).sum(0).clamp(min=1).to(torch.float64)
    return counts.sum() / (len(counts) * counts)
