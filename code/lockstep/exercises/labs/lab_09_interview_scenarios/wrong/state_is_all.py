"""What a rank holds is its state: activations are forgotten."""

from dataclasses import replace

from lockstep.exercises.labs.lab_09_interview_scenarios.solution import (
    ANSWERS as SOUND,
)

FAILS = {"numbers on memory"}

A1 = SOUND["A1"]
ANSWERS = {
    **SOUND,
    "A1": replace(A1, numbers=A1.numbers | {"whole_gb": 22.6}),
}
