"""A batch of one has no padding, and no use."""

import numpy as np

from lockstep.exercises.labs.lab_b2_token_batches.solution import *
from lockstep.exercises.labs.lab_b2_token_batches.sound import check, even

FAILS = {"padding", "epochs"}


def plan(
    lengths: np.ndarray, budget: int, parts: int, seed: int, epoch: int
) -> list[list[list[int]]]:
    """A pair here and there, to make steps whole."""
    check(lengths, budget)
    rng = np.random.default_rng([seed, epoch])
    ids = sorted(rng.permutation(len(lengths)), key=lambda i: lengths[i])
    pairs = len(ids) % parts
    if len(ids) < parts or 2 * pairs > len(ids):
        raise ValueError(f"{len(ids)} samples do not make {parts} batches")
    batches = [
        [int(a), int(b)]
        for a, b in zip(ids[: 2 * pairs : 2], ids[1::2], strict=False)
    ]
    if any(2 * max(lengths[one]) > budget for one in batches):
        raise ValueError(f"{len(ids)} samples do not make {parts} batches")
    made = even(batches + [[int(i)] for i in ids[2 * pairs :]], parts)
    mixed = [made[i] for i in rng.permutation(len(made))]
    return [mixed[i : i + parts] for i in range(0, len(mixed), parts)]
