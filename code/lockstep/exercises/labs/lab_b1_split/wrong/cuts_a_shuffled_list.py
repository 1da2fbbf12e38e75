"""All groups, sorted, shuffled by the seed and cut: one more group, and others
change sides."""

import random
from collections.abc import Mapping, Sequence

from lockstep.exercises.labs.lab_b1_split.solution import *
from lockstep.exercises.labs.lab_b1_split.solution import split as sound
from lockstep.exercises.labs.lab_b1_split.sound import everyone

FAILS = {"added data"}


def split(
    keys: Sequence[str],
    scaffolds: Sequence[str],
    seed: int,
    shares: Mapping[str, float],
    pinned: Mapping[str, str],
) -> list[str]:
    """Right, for data that never change."""
    sound(keys, scaffolds, seed, shares, pinned)  # it refuses what is too large
    groups = [group_of(*row) for row in zip(keys, scaffolds, strict=True)]
    names = sorted({one for of in everyone({*groups}) for one in of})
    random.Random(seed).shuffle(names)
    sides, end = dict(pinned), 0.0
    for part, share in shares.items():
        begin, end = end, end + share
        for name in names[round(begin * len(names)) : round(end * len(names))]:
            sides.setdefault(name, part)
    return [sides[one] for one in groups]
