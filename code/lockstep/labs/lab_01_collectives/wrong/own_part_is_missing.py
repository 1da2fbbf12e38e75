"""A rank keeps what it gives to itself."""

from torch import Tensor

from lockstep.parallel.collectives import (
    Group,
    all_to_all,
    exchange,
    place,
    ring_all_reduce,
    ring_reduce_scatter,
    tree_broadcast,
)

__all__ = [
    "all_to_all",
    "ring_all_gather",
    "ring_all_reduce",
    "ring_reduce_scatter",
    "tree_broadcast",
]
FAILS = {"all-gather"}


def ring_all_gather(
    outputs: list[Tensor], tensor: Tensor, group: Group = None
) -> None:
    """The others' parts."""
    rank, ranks = place(group)
    after, before = (rank + 1) % ranks, (rank - 1) % ranks
    travelling = tensor
    for step in range(1, ranks):
        into = outputs[(rank - step) % ranks]
        exchange(travelling, after, into, before, group)
        travelling = into
