"""There are as many graphs as the greatest owner says: the last one is missing
if it has no atoms."""

import torch
from torch import Tensor

from lockstep.exercises.labs.lab_b4_graph_batches.solution import *
from lockstep.exercises.labs.lab_b4_graph_batches.solution import (
    readout as sound,
)

FAILS = {"readout"}


def readout(h: Tensor, batch: Batch, how: str) -> Tensor:
    """Right, while the last graph has an atom."""
    counts = torch.bincount(batch.owner)
    return sound(h, batch._replace(counts=counts), how)
