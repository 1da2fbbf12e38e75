"""Tensor parallelism hides behind computing, as gradients do."""

from lockstep.exercises.labs.lab_12_design.solution import *
from lockstep.exercises.labs.lab_12_design.solution import axes as sound

FAILS = {"reasons"}


def axes() -> dict[str, dict]:
    rows = sound()
    rows["tensor"] |= {"hides": "computing", "risk": 0}
    return rows
