"""Plans all epochs until it is where it was."""

from collections.abc import Iterator
from itertools import count

import numpy as np

from lockstep.exercises.labs.lab_b2_token_batches.solution import *

FAILS = {"far"}


def stream(
    lengths: np.ndarray, budget: int, parts: int, seed: int, position: int = 0
) -> Iterator[tuple[list[list[int]], int]]:
    """Right, for a minute's wait for each epoch that there was."""
    made = 0
    for epoch in count():
        for step in plan(lengths, budget, parts, seed, epoch):
            made += 1
            if made > position:
                yield step, made
