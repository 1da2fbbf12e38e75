"""The mean of no atoms is 0 / 0."""

from torch import Tensor

from lockstep.exercises.labs.lab_b4_graph_batches.solution import *
from lockstep.exercises.labs.lab_b4_graph_batches.solution import (
    readout as sound,
)

FAILS = {"readout"}


def readout(h: Tensor, batch: Batch, how: str) -> Tensor:
    """Right, until a graph is empty: then NaN, and in the loss as well."""
    found = sound(h, batch, "sum" if how == "mean" else how)
    return found / batch.counts[:, None] if how == "mean" else found
