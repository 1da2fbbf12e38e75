"""torch does the work."""

import torch.distributed as dist
from torch import Tensor

from lockstep.exercises.labs.lab_01_collectives.solution import *
from lockstep.parallel.collectives import Group

FAILS = {"send and recv alone"}


def ring_all_reduce(tensor: Tensor, group: Group = None) -> None:
    """The sum, in place."""
    dist.all_reduce(tensor, group=group)
