"""A day is too short for a search of 4,096 GPUs."""

from lockstep.exercises.labs.lab_12_design.solution import *
from lockstep.exercises.labs.lab_12_design.solution import premise as sound

FAILS = {"premise"}


def premise() -> dict:
    return sound() | {"refused": "corruption"}
