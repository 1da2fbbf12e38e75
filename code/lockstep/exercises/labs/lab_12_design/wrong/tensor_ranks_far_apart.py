"""Tensor-parallel ranks are one in each node."""

from lockstep.exercises.labs.lab_12_design.solution import *
from lockstep.exercises.labs.lab_12_design.solution import axes as sound

FAILS = {"placement"}


def axes() -> dict[str, dict]:
    rows = sound()
    rows["tensor"] |= {"ranks": range(0, 64, 8), "link": "InfiniBand"}
    return rows
