"""The more ranks share the experts, the better."""

from dataclasses import replace

from lockstep.exercises.labs.lab_09_interview_scenarios.solution import (
    ANSWERS as SOUND,
)

FAILS = {"layouts in time"}

FAR = SOUND["B5"].layout | {"ep": 64}
ANSWERS = {**SOUND, "B5": replace(SOUND["B5"], layout=FAR)}
