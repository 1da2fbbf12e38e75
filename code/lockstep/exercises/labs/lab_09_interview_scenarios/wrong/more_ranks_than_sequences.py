"""Data parallelism goes over all GPUs, whatever the batch is."""

from dataclasses import replace

from lockstep.exercises.labs.lab_09_interview_scenarios.solution import (
    ANSWERS as SOUND,
)

FAILS = {"legal layouts"}

ANSWERS = {
    **SOUND,
    "C5": replace(SOUND["C5"], layout={"dp": 1024, "zero_stage": 3}),
}
