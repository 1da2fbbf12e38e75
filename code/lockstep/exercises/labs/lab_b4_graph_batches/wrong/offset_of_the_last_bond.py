"""A graph has as many atoms as its bonds name, so the last atoms without a bond
are nobody's."""

from collections.abc import Sequence

from lockstep.exercises.labs.lab_b4_graph_batches.solution import *
from lockstep.exercises.labs.lab_b4_graph_batches.solution import union as sound

FAILS = {"ragged graphs"}


def union(graphs: Sequence[Graph], features: int) -> Batch:
    """Right, while the last atom has a bond."""
    cut = []
    for one in graphs:
        named = int(one.bonds.max()) + 1 if one.bonds.numel() else None
        cut.append(Graph(one.atoms[:named], one.bonds))
    return sound(cut, features)
