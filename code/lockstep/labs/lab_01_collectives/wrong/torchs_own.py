"""torch does the work."""

import torch.distributed as dist
from torch import Tensor

from lockstep.parallel.collectives import (
    Group,
    all_to_all,
    ring_all_gather,
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
FAILS = {"send and recv alone"}


def ring_all_reduce(tensor: Tensor, group: Group = None) -> None:
    """The sum, in place."""
    dist.all_reduce(tensor, group=group)
