"""A flat copy is summed, and the caller's tensor is not."""

from torch import Tensor

from lockstep.exercises.labs.lab_08_topology.solution import *
from lockstep.parallel.collectives import Group
from lockstep.parallel.topology import hierarchical_all_reduce as sound

FAILS = {"hierarchical"}


def hierarchical_all_reduce(tensor: Tensor, inner: Group, outer: Group) -> None:
    """In place, if `reshape` made a view."""
    sound(tensor.reshape(-1), inner, outer)
