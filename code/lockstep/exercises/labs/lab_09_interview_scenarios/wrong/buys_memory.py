"""The layout brings the memory that it lacks."""

from dataclasses import replace

from lockstep.exercises.labs.lab_09_interview_scenarios.solution import (
    ANSWERS as SOUND,
)

FAILS = {"legal layouts"}

ANSWERS = {
    **SOUND,
    "A2": replace(SOUND["A2"], layout={"dp": 8, "memory": 640e9}),
}
