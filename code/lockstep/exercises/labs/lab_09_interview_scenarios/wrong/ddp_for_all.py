"""Replicas are simplest."""

from dataclasses import replace

from lockstep.exercises.labs.lab_09_interview_scenarios.solution import (
    ANSWERS as SOUND,
)

FAILS = {"layouts fit"}

ANSWERS = {**SOUND, "B2": replace(SOUND["B2"], layout={"dp": 256})}
