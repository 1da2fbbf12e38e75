"""Batches are filled in random order: each is as wide as one long sample."""

import numpy as np

from lockstep.exercises.labs.lab_b2_token_batches.solution import *
from lockstep.exercises.labs.lab_b2_token_batches.sound import check, cut, even

FAILS = {"padding"}


def plan(
    lengths: np.ndarray, budget: int, parts: int, seed: int, epoch: int
) -> list[list[list[int]]]:
    """Right, for twice the positions."""
    check(lengths, budget)
    rng = np.random.default_rng([seed, epoch])
    ids = rng.permutation(len(lengths)).tolist()
    batches = even(cut(ids, lengths, budget), parts)
    return [batches[i : i + parts] for i in range(0, len(batches), parts)]
