"""Looks up a position in one epoch's permutation: the second epoch crashes."""

import numpy as np

from lockstep.exercises.labs.lab_10_checkpoint.solution import *

FAILS = {"sampler"}


def share(
    n: int, seed: int, position: int, count: int, rank: int, world: int
) -> list[int]:
    """A part of the first epoch."""
    order = np.random.default_rng(seed).permutation(n)
    return order[np.arange(position + rank, position + count, world)].tolist()
