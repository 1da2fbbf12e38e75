"""Sums grow in the caller's tensors."""

import torch
from torch import Tensor

from lockstep.parallel.collectives import (
    Group,
    all_to_all,
    exchange,
    place,
    ring_all_gather,
    ring_all_reduce,
    tree_broadcast,
)

__all__ = [
    "all_to_all",
    "ring_all_gather",
    "ring_all_reduce",
    "ring_reduce_scatter",
    "tree_broadcast",
]
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
