"""After the average all replicas have the same wrong weights."""

from lockstep.exercises.labs.lab_12_design.solution import *
from lockstep.exercises.labs.lab_12_design.solution import corruption as sound

FAILS = {"corruption"}


def corruption() -> dict:
    return sound() | {"compares": "weights after the step"}
