"""Sharding all state is enough, as it is at 8,192 tokens."""

from lockstep.exercises.labs.lab_12_design.solution import *
from lockstep.exercises.labs.lab_12_design.solution import layout as sound

FAILS = {"layout"}


def layout() -> dict:
    alone = {"tp": 1, "cp": 1, "dp": 64, "zero_stage": 3}
    return sound() | alone | {"recompute": "full", "sequence_parallel": False}
