"""Saves and replayed work are left out."""

from lockstep.exercises.labs.lab_12_design.solution import *
from lockstep.exercises.labs.lab_12_design.solution import goodput as sound

FAILS = {"goodput"}


def goodput() -> float:
    return sound() + 4 / failures()["interval_seconds"]
