"""A batch is full when its tokens are; its padding is not looked at."""

import numpy as np

from lockstep.exercises.labs.lab_b2_token_batches.solution import *
from lockstep.exercises.labs.lab_b2_token_batches.sound import check, even

FAILS = {"budget"}


def plan(
    lengths: np.ndarray, budget: int, parts: int, seed: int, epoch: int
) -> list[list[list[int]]]:
    """Out of memory, where a batch has a long and a short one."""
    check(lengths, budget)
    rng = np.random.default_rng([seed, epoch])
    near = lengths * rng.uniform(0.9, 1, len(lengths))
    batches: list[list[int]] = []
    held = budget
    for one in np.argsort(-near).tolist():
        held += lengths[one]
        if held > budget:
            batches.append([])
            held = lengths[one]
        batches[-1].append(one)
    made = even(batches, parts)
    mixed = [made[i] for i in rng.permutation(len(made))]
    return [mixed[i : i + parts] for i in range(0, len(mixed), parts)]
