"""A random split: molecules of one scaffold lie on both sides."""

from collections.abc import Mapping, Sequence

from lockstep.exercises.labs.lab_b1_split.solution import *
from lockstep.exercises.labs.lab_b1_split.sound import assign

FAILS = {"groups", "large groups"}


def split(
    keys: Sequence[str],
    scaffolds: Sequence[str],
    seed: int,
    shares: Mapping[str, float],
    pinned: Mapping[str, str],
) -> list[str]:
    """Right, for what has no neighbors."""
    return assign([f"molecule {key}" for key in keys], seed, shares, pinned)
