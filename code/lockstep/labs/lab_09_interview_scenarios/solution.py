"""Lab 09: the strong answers, with their numbers and layouts."""

from lockstep.labs.lab_09_interview_scenarios.scenarios import (
    SCENARIOS,
)

ANSWERS = {name: one.answer for name, one in SCENARIOS.items()}
