"""Molecules without rings have the scaffold "", all of them."""

from collections.abc import Mapping, Sequence

from lockstep.exercises.labs.lab_b1_split.solution import *
from lockstep.exercises.labs.lab_b1_split.sound import assign

FAILS = {"acyclic"}


def split(
    keys: Sequence[str],
    scaffolds: Sequence[str],
    seed: int,
    shares: Mapping[str, float],
    pinned: Mapping[str, str],
) -> list[str]:
    """Right, for drugs with rings."""
    groups = [f"scaffold {one}" for one in scaffolds]
    return assign(groups, seed, shares, pinned)
