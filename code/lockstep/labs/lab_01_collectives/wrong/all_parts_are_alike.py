"""Parts are packed into one tensor, so all must be of one size."""

import torch
from torch import Tensor

from lockstep.parallel.collectives import (
    Group,
    ring_all_gather,
    ring_all_reduce,
    ring_reduce_scatter,
    tree_broadcast,
)
from lockstep.parallel.collectives import all_to_all as sound

__all__ = [
    "all_to_all",
    "ring_all_gather",
    "ring_all_reduce",
    "ring_reduce_scatter",
    "tree_broadcast",
]
FAILS = {"all-to-all"}


def all_to_all(
    outputs: list[Tensor], inputs: list[Tensor], group: Group = None
) -> None:
    """Parts of one size."""
    packed = torch.stack(inputs)
    arrived = torch.empty_like(packed)
    sound(list(arrived), list(packed), group)
    for output, part in zip(outputs, arrived, strict=True):
        output.copy_(part)
