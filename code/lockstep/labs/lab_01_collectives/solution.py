"""Lab 01: one solution, which the handbook quotes."""

from lockstep.parallel.collectives import (
    all_to_all,
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
