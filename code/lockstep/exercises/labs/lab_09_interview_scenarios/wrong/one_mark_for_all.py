"""A feeling for the whole answer in place of a mark for each part."""

from dataclasses import replace

from lockstep.exercises.labs.lab_09_interview_scenarios.solution import (
    ANSWERS as SOUND,
)

FAILS = {"own score"}

ANSWERS = {**SOUND, "A3": replace(SOUND["A3"], score={"problem": 2})}
