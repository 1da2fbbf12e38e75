"""What is too large goes to training, and the split depends on sizes again."""

from collections import Counter
from collections.abc import Mapping, Sequence

from lockstep.exercises.labs.lab_b1_split.solution import *
from lockstep.exercises.labs.lab_b1_split.sound import everyone, side

FAILS = {"large groups"}


def split(
    keys: Sequence[str],
    scaffolds: Sequence[str],
    seed: int,
    shares: Mapping[str, float],
    pinned: Mapping[str, str],
) -> list[str]:
    """Reasonable; but whoever adds data does not hear of it."""
    groups = [group_of(*row) for row in zip(keys, scaffolds, strict=True)]
    counts: Counter[str] = sum(everyone(Counter(groups)), Counter())
    most = min(shares.values()) * counts.total()
    large = {one: "train" for one, count in counts.items() if count > most}
    return [side(one, seed, shares, large | dict(pinned)) for one in groups]
