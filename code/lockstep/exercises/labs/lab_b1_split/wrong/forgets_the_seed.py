"""A digest of the name alone: every seed has one and the same split."""

from collections.abc import Mapping

from lockstep.exercises.labs.lab_b1_split.solution import *
from lockstep.exercises.labs.lab_b1_split.solution import side as sound

FAILS = {"shares"}


def side(
    group: str,
    seed: int,
    shares: Mapping[str, float],
    pinned: Mapping[str, str],
) -> str:
    """Five seeds, and no spread between them."""
    return sound(group, 0, shares, pinned)
