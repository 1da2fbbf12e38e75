"""The bubble is idle time over work, where it is asked of all time."""

from dataclasses import replace

from lockstep.exercises.labs.lab_09_interview_scenarios.solution import (
    ANSWERS as SOUND,
)

FAILS = {"numbers on time"}

C1 = SOUND["C1"]
ANSWERS = {
    **SOUND,
    "C1": replace(C1, numbers=C1.numbers | {"of_total": 7 / 16}),
}
