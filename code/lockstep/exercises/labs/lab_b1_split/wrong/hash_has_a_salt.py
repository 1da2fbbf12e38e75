"""Python's own hash: another one in each process, unless somebody fixed it."""

import random
from collections.abc import Mapping

from lockstep.exercises.labs.lab_b1_split.solution import *

FAILS = {"stable"}


def side(
    group: str,
    seed: int,
    shares: Mapping[str, float],
    pinned: Mapping[str, str],
) -> str:
    """Right, where ranks are forked from one process, as in many a test."""
    if group in pinned:
        return pinned[group]
    draw = random.Random(hash((group, seed)))
    return draw.choices([*shares], [*shares.values()])[0]
