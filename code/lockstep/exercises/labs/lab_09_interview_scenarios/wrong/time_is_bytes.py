"""An all-reduce takes bytes over bandwidth: hops are free."""

from dataclasses import replace

from lockstep.exercises.labs.lab_09_interview_scenarios.solution import (
    ANSWERS as SOUND,
)

FAILS = {"numbers on bytes"}

B6 = SOUND["B6"]
ON_THE_WIRE = {"apart_ms": 0.105, "fused_ms": 0.105, "tree_us": 105}
ANSWERS = {**SOUND, "B6": replace(B6, numbers=ON_THE_WIRE)}
