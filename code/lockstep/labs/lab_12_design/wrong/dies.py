"""The process ends without a word."""

import os

from lockstep.labs.lab_12_design.solution import *

FAILS = {"spares"}


def spares() -> dict[str, float]:
    os.abort()
