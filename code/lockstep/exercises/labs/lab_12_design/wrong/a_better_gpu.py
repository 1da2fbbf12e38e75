"""Products reach all of the peak: the task is changed."""

from lockstep.exercises.labs.lab_12_design.solution import *
from lockstep.exercises.labs.lab_12_design.solution import layout as sound

FAILS = {"layout"}


def layout() -> dict:
    return sound() | {"efficiency": 1.0}
