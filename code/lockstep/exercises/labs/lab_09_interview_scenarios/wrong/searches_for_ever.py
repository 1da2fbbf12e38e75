"""A number is searched for, and the search has no end."""

from dataclasses import replace
from itertools import count
from typing import Any

from lockstep.exercises.labs.lab_09_interview_scenarios.solution import (
    ANSWERS as SOUND,
)

FAILS = {"numbers on time"}
SECONDS = 10  # it hangs


class Searches(dict[str, float]):
    """For an interval that is never found."""

    def get(self, *_: Any) -> Any:
        """Nothing, for ever."""
        return next(each for each in count() if each < 0)


ANSWERS = {
    **SOUND,
    "C7": replace(SOUND["C7"], numbers=Searches(SOUND["C7"].numbers)),
}
