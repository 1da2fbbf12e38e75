"""All checkpoints are newer than the last clean check."""

from lockstep.exercises.labs.lab_12_design.solution import *
from lockstep.exercises.labs.lab_12_design.solution import corruption as sound

FAILS = {"corruption"}


def corruption() -> dict:
    return sound() | {"keep_seconds": 3600}
