"""Seeds NumPy's global generator: all ranks plan alike, and whatever else draws
from it begins anew in each epoch."""

import numpy as np

from lockstep.exercises.labs.lab_b2_token_batches.solution import *
from lockstep.exercises.labs.lab_b2_token_batches.sound import check, cut, even

FAILS = {"alike"}


def plan(
    lengths: np.ndarray, budget: int, parts: int, seed: int, epoch: int
) -> list[list[list[int]]]:
    """Right, and everybody's augmentations repeat."""
    check(lengths, budget)
    np.random.seed([seed, epoch])
    near = lengths * np.random.uniform(0.9, 1, len(lengths))
    batches = even(cut(np.argsort(-near).tolist(), lengths, budget), parts)
    mixed = [batches[i] for i in np.random.permutation(len(batches))]
    return [mixed[i : i + parts] for i in range(0, len(mixed), parts)]
