"""What DDP does with gradients is a mean; the collective is a sum."""

import torch
from torch import Tensor

from lockstep.exercises.labs.lab_01_collectives.solution import *
from lockstep.parallel.collectives import Group, place

FAILS = {"all-reduce"}


def ring_all_reduce(tensor: Tensor, group: Group = None) -> None:
    """The mean, in place; of integers the sum."""
    rank, ranks = place(group)
    parts = list(tensor.view(-1).tensor_split(ranks))
    mine = torch.empty_like(parts[rank])
    ring_reduce_scatter(mine, parts, group)
    ring_all_gather(parts, mine, group)
    if tensor.dtype == torch.float64:
        tensor.div_(ranks)
