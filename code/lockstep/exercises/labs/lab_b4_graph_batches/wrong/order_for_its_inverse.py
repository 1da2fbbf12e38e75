"""Bonds are renumbered by the order, which leads the other way."""

from torch import Tensor

from lockstep.exercises.labs.lab_b4_graph_batches.solution import *

FAILS = {"renumbering"}


def permuted(graph: Graph, order: Tensor) -> Graph:
    """Right, for a swap of two atoms."""
    return Graph(graph.atoms[order], order[graph.bonds])
