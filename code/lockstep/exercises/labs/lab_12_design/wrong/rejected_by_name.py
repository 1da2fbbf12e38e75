"""FSDP is rejected as too slow; what it has is too few bytes."""

from lockstep.exercises.labs.lab_12_design.solution import *
from lockstep.exercises.labs.lab_12_design.solution import rejected as sound

FAILS = {"alternatives"}


def rejected() -> list[dict]:
    one, other = sound()
    return [one | {"because": "time", "number": 60}, other]
