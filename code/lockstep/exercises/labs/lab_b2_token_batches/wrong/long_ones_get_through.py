"""A sample over the budget has a batch of its own, and the GPU no memory."""

import numpy as np

from lockstep.exercises.labs.lab_b2_token_batches.solution import *
from lockstep.exercises.labs.lab_b2_token_batches.sound import cut, even

FAILS = {"refused"}


def plan(
    lengths: np.ndarray, budget: int, parts: int, seed: int, epoch: int
) -> list[list[list[int]]]:
    """Right, until such a one comes."""
    rng = np.random.default_rng([seed, epoch])
    near = lengths * rng.uniform(0.9, 1, len(lengths))
    batches = even(cut(np.argsort(-near).tolist(), lengths, budget), parts)
    mixed = [batches[i] for i in rng.permutation(len(batches))]
    return [mixed[i : i + parts] for i in range(0, len(mixed), parts)]
