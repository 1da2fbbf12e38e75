"""Read a trace of torch.profiler: which communication computation hides."""

from collections.abc import Iterable
from typing import Any

# --8<-- [start:trace]
Span = tuple[float, float]  # begin and end


def covered(spans: Iterable[Span], window: Span) -> float:
    """How much of the window lies in one span at least."""
    at, end = window
    total = 0.0
    for first, last in sorted(spans):
        first, last = max(first, at), min(last, end)
        if last > first:
            total, at = total + last - first, last
    return total


def breakdown(trace: dict[str, Any]) -> dict[int, dict[str, float]]:
    """Microseconds of each step, by what they hide."""
    computes: list[Span] = []
    sends: list[Span] = []
    steps: dict[int, Span] = {}
    for event in trace["traceEvents"]:
        if event["ph"] != "X":
            continue
        name, category = event["name"], event.get("cat")
        span = event["ts"], event["ts"] + event["dur"]
        if name.startswith("gloo:"):
            sends.append(span)
        elif category == "cpu_op" and not name.startswith("c10d::"):
            computes.append(span)
        elif category == "user_annotation" and name.startswith("step "):
            steps[int(name.removeprefix("step "))] = span
    found = {}
    for step, window in steps.items():
        computation = covered(computes, window)
        busy = covered(computes + sends, window)
        found[step] = {
            "computation": computation,
            "communication": covered(sends, window),
            "exposed": busy - computation,
            "idle": window[1] - window[0] - busy,
        }
    return found


# --8<-- [end:trace]
