"""Batches come as they were cut, the longest first: each epoch ends with the
short ones, and so do its running means."""

import numpy as np

from lockstep.exercises.labs.lab_b2_token_batches.solution import *
from lockstep.exercises.labs.lab_b2_token_batches.sound import check, cut, even

FAILS = {"epochs"}


def plan(
    lengths: np.ndarray, budget: int, parts: int, seed: int, epoch: int
) -> list[list[list[int]]]:
    """Out of memory at once, if at all."""
    check(lengths, budget)
    rng = np.random.default_rng([seed, epoch])
    near = lengths * rng.uniform(0.9, 1, len(lengths))
    batches = even(cut(np.argsort(-near).tolist(), lengths, budget), parts)
    batches.sort(key=lambda one: -max(lengths[one]))
    return [batches[i : i + parts] for i in range(0, len(batches), parts)]
