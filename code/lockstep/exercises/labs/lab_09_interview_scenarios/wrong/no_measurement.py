"""The answer ends with the trade-off: nothing could refute it."""

from dataclasses import replace

from lockstep.exercises.labs.lab_09_interview_scenarios.solution import (
    ANSWERS as SOUND,
)

FAILS = {"five parts"}

ANSWERS = {**SOUND, "B1": replace(SOUND["B1"], measurement=" ")}
