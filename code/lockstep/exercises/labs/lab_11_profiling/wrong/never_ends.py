"""Merges two spans for as long as there are two."""

from typing import Any

from lockstep.exercises.labs.lab_11_profiling.solution import *

FAILS = {"trace"}
SECONDS = 10  # it hangs


def breakdown(trace: dict[str, Any]) -> dict[int, dict[str, float]]:
    spans = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    while len(spans) > 1:
        spans.sort(key=lambda e: float(e["ts"]))
    return {}
