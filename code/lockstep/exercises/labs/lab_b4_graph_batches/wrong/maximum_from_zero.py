"""The maximum starts from the zeros that it is written into."""

from torch import Tensor

from lockstep.exercises.labs.lab_b4_graph_batches.solution import *
from lockstep.exercises.labs.lab_b4_graph_batches.solution import (
    readout as sound,
)

FAILS = {"readout"}


def readout(h: Tensor, batch: Batch, how: str) -> Tensor:
    """Right, behind a ReLU."""
    found = sound(h, batch, how)
    return found.clamp(min=0) if how == "max" else found
