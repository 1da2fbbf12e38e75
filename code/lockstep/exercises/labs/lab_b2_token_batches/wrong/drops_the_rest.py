"""What makes no whole step is left out, in every epoch."""

import numpy as np

from lockstep.exercises.labs.lab_b2_token_batches.solution import *
from lockstep.exercises.labs.lab_b2_token_batches.sound import check, cut, even

FAILS = {"once"}


def plan(
    lengths: np.ndarray, budget: int, parts: int, seed: int, epoch: int
) -> list[list[list[int]]]:
    """Samples are lost, and no rank waits."""
    check(lengths, budget)
    rng = np.random.default_rng([seed, epoch])
    near = lengths * rng.uniform(0.9, 1, len(lengths))
    batches = cut(np.argsort(-near).tolist(), lengths, budget)
    if len(batches) < parts or len(batches) == len(lengths):
        batches = even(batches, parts)
    mixed = [batches[i] for i in rng.permutation(len(batches))]
    whole = len(mixed) // parts * parts
    return [mixed[i : i + parts] for i in range(0, whole, parts)]
