"""A bond is read from its end to its beginning."""

from torch import Tensor

from lockstep.exercises.labs.lab_b4_graph_batches.solution import *
from lockstep.exercises.labs.lab_b4_graph_batches.solution import (
    messages as sound,
)

FAILS = {"messages"}


def messages(h: Tensor, batch: Batch) -> Tensor:
    """Right, where each bond is there in both directions."""
    return sound(h, batch._replace(bonds=batch.bonds.flip(0)))
