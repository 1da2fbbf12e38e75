"""The position that comes with a step is that step's own: it trains twice."""

from collections.abc import Iterator

import numpy as np

from lockstep.exercises.labs.lab_b2_token_batches.solution import *
from lockstep.exercises.labs.lab_b2_token_batches.sound import stream as sound

FAILS = {"resume"}


def stream(
    lengths: np.ndarray, budget: int, parts: int, seed: int, position: int = 0
) -> Iterator[tuple[list[list[int]], int]]:
    """One step is repeated with each resume."""
    before = position
    for step, after in sound(lengths, budget, parts, seed, position):
        yield step, before
        before = after
