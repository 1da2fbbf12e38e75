"""Sums travel in float32, whatever came."""

from torch import Tensor

from lockstep.parallel.collectives import (
    Group,
    all_to_all,
    ring_all_gather,
    ring_all_reduce,
    tree_broadcast,
)
from lockstep.parallel.collectives import ring_reduce_scatter as sound

__all__ = [
    "all_to_all",
    "ring_all_gather",
    "ring_all_reduce",
    "ring_reduce_scatter",
    "tree_broadcast",
]
FAILS = {"dtypes"}


def ring_reduce_scatter(
    output: Tensor, inputs: list[Tensor], group: Group = None
) -> None:
    """The sum, of integers rounded."""
    if output.dtype.is_floating_point:
        sound(output, inputs, group)
        return
    total = output.float()
    sound(total, [one.float() for one in inputs], group)
    output.copy_(total)
