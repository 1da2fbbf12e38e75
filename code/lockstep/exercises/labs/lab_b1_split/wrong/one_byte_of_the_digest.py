"""A byte of the digest, modulo ten: 0 to 5 come oftener than 6 to 9."""

from collections.abc import Mapping
from hashlib import sha256

from lockstep.exercises.labs.lab_b1_split.solution import *

FAILS = {"shares"}


def side(
    group: str,
    seed: int,
    shares: Mapping[str, float],
    pinned: Mapping[str, str],
) -> str:
    """As many for each number would take a multiple of ten."""
    if group in pinned:
        return pinned[group]
    at, end = sha256(f"{seed} {group}".encode()).digest()[0] % 10, 0.0
    for part, share in shares.items():
        end += 10 * share
        if at < round(end) - (part == "train"):
            return part
    return part
