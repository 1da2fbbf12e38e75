"""The mean number in repair is the number of spares."""

from lockstep.exercises.labs.lab_12_design.solution import *
from lockstep.exercises.labs.lab_12_design.solution import spares as sound

FAILS = {"spares"}


def spares() -> dict[str, float]:
    return sound() | {"nodes": 2}
