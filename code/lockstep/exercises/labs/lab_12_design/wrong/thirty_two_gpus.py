"""tp x cp x dp is half of the GPUs."""

from lockstep.exercises.labs.lab_12_design.solution import *
from lockstep.exercises.labs.lab_12_design.solution import layout as sound

FAILS = {"layout"}


def layout() -> dict:
    return sound() | {"dp": 1}
