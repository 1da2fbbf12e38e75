"""A starved GPU gets seven colleagues."""

from dataclasses import replace

from lockstep.exercises.labs.lab_09_interview_scenarios.solution import (
    ANSWERS as SOUND,
)

FAILS = {"legal layouts"}

ANSWERS = {
    **SOUND,
    "C4": replace(SOUND["C4"], layout={"dp": 8, "micro_batch": 8}),
}
