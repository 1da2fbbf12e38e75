"""The goodput that is refused is given as the limit."""

from lockstep.exercises.labs.lab_12_design.solution import *
from lockstep.exercises.labs.lab_12_design.solution import premise as sound

FAILS = {"premise"}


def premise() -> dict:
    return sound() | {"possible": 0.995}
