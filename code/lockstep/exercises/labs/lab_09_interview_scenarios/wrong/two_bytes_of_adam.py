"""Adam is two moments of two bytes, as everything is in 16 bits."""

from dataclasses import replace

from lockstep.exercises.labs.lab_09_interview_scenarios.solution import (
    ANSWERS as SOUND,
)

FAILS = {"numbers on memory"}

A4 = SOUND["A4"]
THIRD = A4.numbers["optimizer_gb"] / 3
ANSWERS = {
    **SOUND,
    "A4": replace(A4, numbers=A4.numbers | {"optimizer_gb": THIRD}),
}
