"""One plan for all epochs."""

import numpy as np

from lockstep.exercises.labs.lab_b2_token_batches.solution import *
from lockstep.exercises.labs.lab_b2_token_batches.solution import plan as sound

FAILS = {"epochs"}


def plan(
    lengths: np.ndarray, budget: int, parts: int, seed: int, epoch: int
) -> list[list[list[int]]]:
    """As a sampler without set_epoch."""
    return sound(lengths, budget, parts, seed, 0)
