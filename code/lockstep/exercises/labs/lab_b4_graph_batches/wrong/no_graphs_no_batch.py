"""A rank that was dealt no graphs joins nothing, which torch.cat refuses."""

from collections.abc import Sequence

from lockstep.exercises.labs.lab_b4_graph_batches.solution import *
from lockstep.exercises.labs.lab_b4_graph_batches.solution import union as sound

FAILS = {"ragged graphs"}


def union(graphs: Sequence[Graph], features: int) -> Batch:
    """Right, for whoever has a graph."""
    if not graphs:
        raise ValueError("expected a non-empty list of graphs")
    return sound(graphs, features)
