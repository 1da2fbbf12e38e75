"""A save overwrites the only copy."""

from lockstep.exercises.labs.lab_12_design.solution import *
from lockstep.exercises.labs.lab_12_design.solution import peers as sound

FAILS = {"peers"}


def peers() -> dict[str, float]:
    return sound() | {"generations": 1, "bytes_per_node": 8 * SHARE * 2}
