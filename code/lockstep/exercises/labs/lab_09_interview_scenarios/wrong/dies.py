"""The process ends without a word, when a number is looked up."""

import os
from dataclasses import replace
from typing import Any

from lockstep.exercises.labs.lab_09_interview_scenarios.solution import (
    ANSWERS as SOUND,
)

FAILS = {"numbers on memory"}


class Aborts(dict[str, float]):
    """An extension that crashes ends so."""

    def get(self, *_: Any) -> Any:
        """Nothing."""
        os.abort()


ANSWERS = {
    **SOUND,
    "A5": replace(SOUND["A5"], numbers=Aborts(SOUND["A5"].numbers)),
}
