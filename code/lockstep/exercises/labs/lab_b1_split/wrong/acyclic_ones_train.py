"""Molecules without rings have no group, so they go to training."""

from collections.abc import Mapping, Sequence

from lockstep.exercises.labs.lab_b1_split.solution import *
from lockstep.exercises.labs.lab_b1_split.solution import split as sound

FAILS = {"acyclic"}


def split(
    keys: Sequence[str],
    scaffolds: Sequence[str],
    seed: int,
    shares: Mapping[str, float],
    pinned: Mapping[str, str],
) -> list[str]:
    """Nobody ever tests one."""
    found = sound(keys, scaffolds, seed, shares, pinned)
    return [
        part if scaffold else next(iter(shares))
        for part, scaffold in zip(found, scaffolds, strict=True)
    ]
