"""The mean time between failures of the larger job is used."""

from lockstep.exercises.labs.lab_12_design.solution import *
from lockstep.exercises.labs.lab_12_design.solution import failures as sound

FAILS = {"failures"}


def failures() -> dict:
    return sound() | {"a_day": 419 / 54}
