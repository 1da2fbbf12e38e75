"""Every step sends the whole buffer."""

import torch
from torch import Tensor

from lockstep.exercises.labs.lab_01_collectives.solution import *
from lockstep.parallel.collectives import Group, exchange, place

FAILS = {"bytes"}


def ring_all_reduce(tensor: Tensor, group: Group = None) -> None:
    """The sum, for n / 2 times the bytes."""
    rank, ranks = place(group)
    after, before = (rank + 1) % ranks, (rank - 1) % ranks
    travelling = tensor.clone()
    for _ in range(ranks - 1):
        arrived = torch.empty_like(travelling)
        exchange(travelling, after, arrived, before, group)
        tensor.add_(arrived)
        travelling = arrived
