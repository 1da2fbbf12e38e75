"""A data sheet's 80 GB are taken for GiB, and so is all the rest."""

from dataclasses import replace

from lockstep.exercises.labs.lab_09_interview_scenarios.solution import (
    ANSWERS as SOUND,
)

FAILS = {"numbers on memory"}

A7 = SOUND["A7"]
BINARY = {name: each * 1e9 / 2**30 for name, each in A7.numbers.items()}
ANSWERS = {**SOUND, "A7": replace(A7, numbers=BINARY)}
