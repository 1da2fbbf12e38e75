"""Bonds are joined as they are: each index is one of the batch."""

from collections.abc import Sequence

import torch

from lockstep.exercises.labs.lab_b4_graph_batches.solution import *
from lockstep.exercises.labs.lab_b4_graph_batches.solution import union as sound

FAILS = {"union"}


def union(graphs: Sequence[Graph], features: int) -> Batch:
    """All bonds lie on the first molecules' atoms."""
    right = sound(graphs, features)
    nothing = torch.empty(2, 0, dtype=torch.int64)
    bonds = torch.cat([*(one.bonds for one in graphs), nothing], 1)
    return right._replace(bonds=bonds)
