"""Takes every microsecond of communication for one that the step waits."""

from typing import Any

from lockstep.exercises.labs.lab_11_profiling import solution
from lockstep.exercises.labs.lab_11_profiling.solution import *

FAILS = {"trace"}


def breakdown(trace: dict[str, Any]) -> dict[int, dict[str, float]]:
    """As if nothing overlapped."""
    found = solution.breakdown(trace)
    for parts in found.values():
        parts["exposed"] = parts["communication"]
    return found
