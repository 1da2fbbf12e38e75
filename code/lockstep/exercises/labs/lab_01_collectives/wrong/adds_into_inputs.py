"""Sums grow in the caller's tensors."""

import torch
from torch import Tensor

from lockstep.exercises.labs.lab_01_collectives.solution import *
from lockstep.parallel.collectives import Group, exchange, place

FAILS = {"reduce-scatter"}


def ring_reduce_scatter(
    output: Tensor, inputs: list[Tensor], group: Group = None
) -> None:
    """The sum, and the inputs are lost."""
    rank, ranks = place(group)
    after, before = (rank + 1) % ranks, (rank - 1) % ranks
    for step in range(1, ranks):
        out, into = (rank - step) % ranks, (rank - step - 1) % ranks
        arrived = torch.empty_like(inputs[into])
        exchange(inputs[out], after, arrived, before, group)
        inputs[into].add_(arrived)
    output.copy_(inputs[rank])
