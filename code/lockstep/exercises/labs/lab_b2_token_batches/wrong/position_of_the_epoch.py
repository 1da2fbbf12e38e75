"""The position is the step within the epoch: a resume is in the first one."""

from collections.abc import Iterator

import numpy as np

from lockstep.exercises.labs.lab_b2_token_batches.solution import *
from lockstep.exercises.labs.lab_b2_token_batches.sound import stream as sound

FAILS = {"resume"}


def stream(
    lengths: np.ndarray, budget: int, parts: int, seed: int, position: int = 0
) -> Iterator[tuple[list[list[int]], int]]:
    """Right, in the first epoch."""
    for step, after in sound(lengths, budget, parts, seed, position):
        yield step, after % (len(lengths) + 1)
