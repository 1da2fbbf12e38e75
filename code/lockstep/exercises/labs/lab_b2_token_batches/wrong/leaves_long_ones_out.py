"""A sample over the budget is left out, and nobody is told."""

import numpy as np

from lockstep.exercises.labs.lab_b2_token_batches.solution import *
from lockstep.exercises.labs.lab_b2_token_batches.solution import plan as sound

FAILS = {"refused"}


def plan(
    lengths: np.ndarray, budget: int, parts: int, seed: int, epoch: int
) -> list[list[list[int]]]:
    """Another dataset."""
    kept = np.flatnonzero((lengths <= budget) & (lengths > 0))
    steps = sound(lengths[kept], budget, parts, seed, epoch)
    return [[kept[one].tolist() for one in step] for step in steps]
