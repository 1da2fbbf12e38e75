"""A time-out that ends a healthy job."""

from lockstep.exercises.labs.lab_12_design.solution import *
from lockstep.exercises.labs.lab_12_design.solution import failures as sound

FAILS = {"failures"}


def failures() -> dict:
    told = sound()
    told["restart"]["detect"] = 10
    return told
