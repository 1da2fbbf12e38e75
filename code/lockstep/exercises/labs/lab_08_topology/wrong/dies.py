"""The process ends without a word."""

import os

from torch import Tensor

from lockstep.exercises.labs.lab_08_topology.solution import *
from lockstep.parallel.collectives import Group

FAILS = {"hierarchical"}


def hierarchical_all_reduce(tensor: Tensor, inner: Group, outer: Group) -> None:
    """Nothing: an extension that crashes ends so."""
    os.abort()
