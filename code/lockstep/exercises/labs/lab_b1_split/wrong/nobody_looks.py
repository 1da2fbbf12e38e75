"""No group is too large: a test set may be one scaffold, or have none."""

from collections.abc import Mapping, Sequence

from lockstep.exercises.labs.lab_b1_split.solution import *
from lockstep.exercises.labs.lab_b1_split.sound import side

FAILS = {"large groups"}


def split(
    keys: Sequence[str],
    scaffolds: Sequence[str],
    seed: int,
    shares: Mapping[str, float],
    pinned: Mapping[str, str],
) -> list[str]:
    """Right, where scaffolds are small."""
    groups = [group_of(*row) for row in zip(keys, scaffolds, strict=True)]
    return [side(one, seed, shares, pinned) for one in groups]
