"""The process ends without a word."""

import os

from lockstep.exercises.labs.lab_12_design.solution import *

FAILS = {"spares"}


def spares() -> dict[str, float]:
    os.abort()
