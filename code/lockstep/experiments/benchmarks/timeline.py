"""What a recorded trace shows of a step, rank by rank.

Without torch: the site draws its pictures from here. `traces.py` beside it
records the files, one for each case with both ranks in it, as torch.profiler
exports them and cut to what is read; the process id is the rank.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("traces")
PHASES = "load", "forward", "backward", "sync", "optimizer"

Span = tuple[float, float]  # begin and end, in microseconds
Lanes = dict[str, list[tuple[str, Span]]]


class BadTrace(ValueError):
    """There is no such trace, or it cannot be read."""


def load(name: str, folder: Path = FOLDER) -> dict[str, Any]:
    """The recorded trace of that name.

    Raises:
        BadTrace: it is missing or no trace, with what to do.
    """
    path = folder / f"{name}.json"
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if "traceEvents" not in found:
            raise ValueError("it has no traceEvents")
    except (OSError, ValueError) as error:
        names = ", ".join(sorted(at.stem for at in folder.glob("*.json")))
        raise BadTrace(
            f"no trace {name!r} ({error}); there are: {names or 'none'}"
        ) from None
    return found


def of_rank(trace: dict[str, Any], rank: int) -> dict[str, Any]:
    """The part of a trace that one rank wrote."""
    events = [e for e in trace["traceEvents"] if e["pid"] == rank]
    return trace | {"traceEvents": events}


def ranks(trace: dict[str, Any]) -> list[int]:
    """Whose events are in it."""
    return sorted({event["pid"] for event in trace["traceEvents"]})


def steps(trace: dict[str, Any]) -> list[int]:
    """The optimizer steps that it has."""
    names = {e["name"] for e in trace["traceEvents"] if e["ph"] == "X"}
    return sorted(int(n[5:]) for n in names if n.startswith("step "))


def window(trace: dict[str, Any], step: int) -> Span:
    """When a step began on the first rank and ended on the last."""
    found = [
        span(event)
        for event in trace["traceEvents"]
        if event["name"] == f"step {step}"
    ]
    return min(begin for begin, _ in found), max(end for _, end in found)


def lanes(
    trace: dict[str, Any], step: int
) -> dict[str, list[tuple[str, Span]]]:
    """One rank's spans in a step, with their names: its `phases`, what it
    `computes` and what it `sends`. The last two are joined where they touch.

    On a CPU an operator is a `cpu_op`; `c10d::` is the call that launches a
    collective, and `gloo:` the work on one of gloo's own threads.
    """
    begin, end = window(trace, step)
    inside = [
        event
        for event in trace["traceEvents"]
        if event["ph"] == "X"
        and event["ts"] < end
        and event["ts"] + event["dur"] > begin
    ]
    sends = [e for e in inside if e["name"].startswith("gloo:")]
    computes = [
        event
        for event in inside
        if event.get("cat") == "cpu_op"
        and not event["name"].startswith("c10d::")
    ]
    phases = [e for e in inside if e["name"] in PHASES]
    return {
        "phases": sorted((e["name"], span(e)) for e in phases),
        "computes": [("", one) for one in joined(map(span, computes))],
        "sends": [("", one) for one in joined(map(span, sends))],
    }


def span(event: dict[str, Any]) -> Span:
    """When an event began and ended."""
    return event["ts"], event["ts"] + event["dur"]


def joined(spans: Iterable[Span]) -> list[Span]:
    """Spans in order, those that touch as one."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found
