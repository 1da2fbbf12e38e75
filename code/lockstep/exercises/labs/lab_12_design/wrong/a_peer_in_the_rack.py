"""The next node has the copy, on the same power."""

from lockstep.exercises.labs.lab_12_design.solution import *
from lockstep.exercises.labs.lab_12_design.solution import peers as sound

FAILS = {"peers"}


def peers() -> dict[str, float]:
    return sound() | {"distance": 1}
