"""An all-reduce sends the buffer once."""

from lockstep.exercises.labs.lab_12_design.solution import *
from lockstep.exercises.labs.lab_12_design.solution import axes as sound

FAILS = {"bytes"}


def axes() -> dict[str, dict]:
    rows = sound()
    rows["tensor"]["sent"] /= 2
    return rows
