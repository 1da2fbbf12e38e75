"""A job on 4,096 GPUs fails as seldom as one GPU."""

from dataclasses import replace

from lockstep.exercises.labs.lab_09_interview_scenarios.solution import (
    ANSWERS as SOUND,
)

FAILS = {"numbers on time"}

C7 = SOUND["C7"]
ANSWERS = {**SOUND, "C7": replace(C7, numbers=C7.numbers | {"mtbf_h": 50000})}
