"""A node's ranks divide every length; what is left over stays as it is."""

import torch.distributed as dist
from torch import Tensor

from lockstep.exercises.labs.lab_08_topology.solution import *
from lockstep.parallel.collectives import Group
from lockstep.parallel.topology import hierarchical_all_reduce as sound

FAILS = {"hierarchical"}


def hierarchical_all_reduce(tensor: Tensor, inner: Group, outer: Group) -> None:
    """The sum of the first numbers."""
    each = dist.get_world_size(inner)
    flat = tensor.reshape(-1)
    length = flat.numel() // each * each
    if length:
        sound(flat[:length], inner, outer)
    tensor.copy_(flat.view_as(tensor))
