"""The next node has the copy, on the same power."""

from lockstep.labs.lab_12_design.solution import *
from lockstep.labs.lab_12_design.solution import peers as sound

FAILS = {"peers"}


def peers() -> dict[str, float]:
    return sound() | {"distance": 1}
