"""The seed has the rank in it, as an augmentation's would."""

import os

import numpy as np

from lockstep.exercises.labs.lab_b2_token_batches.solution import *
from lockstep.exercises.labs.lab_b2_token_batches.solution import plan as sound

FAILS = {"alike"}


def plan(
    lengths: np.ndarray, budget: int, parts: int, seed: int, epoch: int
) -> list[list[list[int]]]:
    """Ranks have other steps, and some samples on two of them."""
    own = seed + 1000 * int(os.environ["RANK"])
    return sound(lengths, budget, parts, own, epoch)
