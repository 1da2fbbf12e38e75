"""A search that does not end."""

from lockstep.exercises.labs.lab_12_design.solution import *

FAILS = {"premise"}
SECONDS = 10  # it hangs


def premise() -> dict:
    while True:
        pass
