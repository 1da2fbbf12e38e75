"""An hour between saves is what everybody does."""

from lockstep.exercises.labs.lab_12_design.solution import *
from lockstep.exercises.labs.lab_12_design.solution import failures as sound

FAILS = {"failures"}


def failures() -> dict:
    return sound() | {"interval_seconds": 3600}
