"""ZeRO-1 fits the state, so it fits."""

from dataclasses import replace

from lockstep.exercises.labs.lab_09_interview_scenarios.solution import (
    ANSWERS as SOUND,
)

FAILS = {"layouts fit"}

ANSWERS = {
    **SOUND,
    "A2": replace(SOUND["A2"], layout={"dp": 8, "zero_stage": 1}),
}
