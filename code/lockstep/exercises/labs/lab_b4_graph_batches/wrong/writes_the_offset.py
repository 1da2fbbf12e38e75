"""The offset is added in place: in the second epoch bonds move on again."""

from collections.abc import Sequence

from lockstep.exercises.labs.lab_b4_graph_batches.solution import *
from lockstep.exercises.labs.lab_b4_graph_batches.solution import union as sound

FAILS = {"two epochs"}


def union(graphs: Sequence[Graph], features: int) -> Batch:
    """Right, the first time."""
    batch, before = sound(graphs, features), 0
    for one in graphs:
        one.bonds.add_(before)
        before += len(one.atoms)
    return batch
