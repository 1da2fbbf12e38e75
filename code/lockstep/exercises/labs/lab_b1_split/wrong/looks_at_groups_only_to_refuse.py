"""Refuses large groups, and then splits molecules, which fills the shares more
exactly."""

from collections.abc import Mapping, Sequence

from lockstep.exercises.labs.lab_b1_split.solution import *
from lockstep.exercises.labs.lab_b1_split.solution import split as sound

FAILS = {"groups"}


def split(
    keys: Sequence[str],
    scaffolds: Sequence[str],
    seed: int,
    shares: Mapping[str, float],
    pinned: Mapping[str, str],
) -> list[str]:
    """A neighbor of each test molecule is in training."""
    sound(keys, scaffolds, seed, shares, pinned)
    groups = [group_of(*row) for row in zip(keys, scaffolds, strict=True)]
    return [
        pinned.get(group) or side(group_of(key, ""), seed, shares, {})
        for key, group in zip(keys, groups, strict=True)
    ]
