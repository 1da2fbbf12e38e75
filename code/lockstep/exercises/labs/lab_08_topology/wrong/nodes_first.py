"""Sums commute, so it does not matter which group comes first."""

from torch import Tensor

from lockstep.exercises.labs.lab_08_topology.solution import *
from lockstep.parallel.collectives import Group
from lockstep.parallel.topology import hierarchical_all_reduce as sound

FAILS = {"bytes"}


def hierarchical_all_reduce(tensor: Tensor, inner: Group, outer: Group) -> None:
    """The large phases go over the network, the small one stays in the node."""
    sound(tensor, outer, inner)
