"""A task without a label weighs inf, and its first label is the whole loss."""

from torch import Tensor

from lockstep.exercises.labs.lab_b3_masked_loss.solution import *
from lockstep.exercises.labs.lab_b3_masked_loss.sound import everywhere

FAILS = {"rare tasks"}


def task_weights(values: Tensor) -> Tensor:
    """Right, while every task has a label."""
    counts = everywhere((~values.isnan()).sum(0))
    return counts.sum() / (len(counts) * counts)
