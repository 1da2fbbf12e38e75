"""A seeded generator that goes on: the answer depends on who asked before."""

import random
from collections.abc import Mapping

from lockstep.exercises.labs.lab_b1_split.solution import *

FAILS = {"stable"}
DRAWS: dict[int, random.Random] = {}


def side(
    group: str,
    seed: int,
    shares: Mapping[str, float],
    pinned: Mapping[str, str],
) -> str:
    """Right, if all ask for the same groups in the same order, once."""
    if group in pinned:
        return pinned[group]
    draw = DRAWS.setdefault(seed, random.Random(seed))
    return draw.choices([*shares], [*shares.values()])[0]
