"""Two all-reduces, one after the other, are a sum over all ranks."""

import torch.distributed as dist
from torch import Tensor

from lockstep.exercises.labs.lab_08_topology.solution import *
from lockstep.parallel.collectives import Group

FAILS = {"bytes"}


def hierarchical_all_reduce(tensor: Tensor, inner: Group, outer: Group) -> None:
    """Every rank of a node sends the node's whole sum to the next node."""
    whole = tensor.contiguous()
    dist.all_reduce(whole, group=inner)
    dist.all_reduce(whole, group=outer)
    tensor.copy_(whole)
