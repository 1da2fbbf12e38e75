"""Gives a collective that outlasts its step to that step, whole."""

from typing import Any

from lockstep.exercises.labs.lab_11_profiling import solution
from lockstep.exercises.labs.lab_11_profiling.solution import *

FAILS = {"trace"}


def breakdown(trace: dict[str, Any]) -> dict[int, dict[str, float]]:
    """As if no event crossed a step's end."""
    events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    found: dict[int, dict[str, float]] = {}
    for step in events:
        if not step["name"].startswith("step "):
            continue
        begin, end = step["ts"], step["ts"] + step["dur"]
        own = [e for e in events if begin <= e["ts"] < end]
        last = max(e["ts"] + e["dur"] for e in own)
        wide = {**step, "dur": last - begin}
        found |= solution.breakdown({"traceEvents": [wide, *own]})
    return found
