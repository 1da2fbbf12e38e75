"""Every restart waits for a check of all nodes."""

from lockstep.exercises.labs.lab_12_design.solution import *
from lockstep.exercises.labs.lab_12_design.solution import failures as sound

FAILS = {"goodput"}


def failures() -> dict:
    told = sound()
    told["restart"]["preflight"] = 300
    return told
