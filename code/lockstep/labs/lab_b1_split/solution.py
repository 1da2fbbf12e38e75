"""Lab B1: one solution, which the page quotes."""

from lockstep.labs.lab_b1_split.sound import (
    audit,
    group_of,
    nearest,
    side,
    split,
)

__all__ = ["audit", "group_of", "nearest", "side", "split"]
