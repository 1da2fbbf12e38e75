"""What DDP does with gradients is a mean; the collective is a sum."""

import torch
from torch import Tensor

from lockstep.parallel.collectives import (
    Group,
    all_to_all,
    place,
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
