"""The process ends without a word."""

import os

from torch import Tensor

from lockstep.parallel.collectives import (
    Group,
    ring_all_gather,
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
FAILS = {"send and recv alone", "all-to-all"}


def all_to_all(
    outputs: list[Tensor], inputs: list[Tensor], group: Group = None
) -> None:
    """Nothing: an extension that crashes ends so."""
    os.abort()
