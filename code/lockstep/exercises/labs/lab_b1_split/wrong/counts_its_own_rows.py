"""Each rank looks for large groups among its own rows, and raises alone."""

from collections import Counter
from collections.abc import Mapping, Sequence

from lockstep.exercises.labs.lab_b1_split.solution import *
from lockstep.exercises.labs.lab_b1_split.sound import side

FAILS = {"large groups"}
SECONDS = 10  # it hangs


def split(
    keys: Sequence[str],
    scaffolds: Sequence[str],
    seed: int,
    shares: Mapping[str, float],
    pinned: Mapping[str, str],
) -> list[str]:
    """Right, on one rank."""
    groups = [group_of(*row) for row in zip(keys, scaffolds, strict=True)]
    most = 2 * min(shares.values()) * len(groups) + 100
    for group, count in Counter(groups).items():
        if count > most and group not in pinned:
            raise ValueError(f"{group} has {count} rows")
    return [side(one, seed, shares, pinned) for one in groups]
