"""A rank without a label of a task raises, and the others count on."""

from torch import Tensor

from lockstep.exercises.labs.lab_b3_masked_loss.solution import *
from lockstep.exercises.labs.lab_b3_masked_loss.solution import (
    task_weights as sound,
)

FAILS = {"rare tasks"}


def task_weights(values: Tensor) -> Tensor:
    """Right, while every rank has every task."""
    if values.isnan().all(0).any():
        raise ValueError(f"no label in {values.isnan().all(0).tolist()}")
    return sound(values)
