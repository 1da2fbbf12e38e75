"""Blames the phase in which the time shows: ranks that wait in the
all-reduce, for one that is late."""

from lockstep.exercises.labs.lab_11_profiling.solution import *

FAILS = {"diagnosis"}
FOUND: dict[str, tuple[str, int | None] | None] = {
    "A": ("load", None),
    "B": ("sync", None),
    "C": ("sync", 0),
    "D": ("sync", 1),
}
