"""The picture of the chapter on failures: a fault, and who reports it when."""

from __future__ import annotations

import re

from lockstep.practice.figures import ROOT
from lockstep.site.pages.charts import Axis, Chart, Lane, lanes

LOG = ROOT / "code/lockstep/experiments/demos/first_fault.log"
CLOCK = r"(\d\d):(\d\d):(\d\d(?:\.\d+)?)"
FAULT = re.compile(rf"{CLOCK} (\S+) kernel: NVRM: (Xid) .*: (\d+),")
REPORT = re.compile(rf"(\S+): \[rank(\d+)\].* {CLOCK} .* ran for (\d+) milli")
KINDS = [
    "trains",
    "waits in a collective",
    "reports a timeout",
    "the fault: Xid 79",
]
TRAINS, WAITS, REPORTS, FAILS = range(len(KINDS))
GPUS = 4  # of a node
SHOWN = 0.35  # minutes that the mark of a report is wide
FAULT_SHOWN = 0.8  # minutes that the mark of the fault is wide


def minutes(hours: str, minute: str, seconds: str) -> float:
    """Return minutes since 03:00."""
    return (int(hours) - 3) * 60 + int(minute) + float(seconds) / 60


def clock(minute: float) -> str:
    """Return a time of day, from minutes since 03:00."""
    seconds = round(minute * 60)
    return f"03:{seconds // 60:02}:{seconds % 60:02}"


def read() -> tuple[tuple[str, float], dict[int, tuple[str, float, float]]]:
    """Return the fault as (node, time), and each report of a timeout by rank,
    as (node, start of the wait, time). Times are in minutes since 03:00.

    Raises:
        ValueError: the log has no fault.
    """
    fault, reports = None, {}
    for line in LOG.read_text("utf-8").splitlines():
        if found := FAULT.search(line):
            fault = found[4], minutes(*found.groups()[:3])
        elif found := REPORT.search(line):
            at = minutes(*found.groups()[2:5])
            start = at - int(found[6]) / 60_000
            reports[int(found[2])] = found[1], start, at
    if fault is None:
        raise ValueError(f"{LOG.name}: no fault")
    return fault, reports


def first_fault() -> Chart:
    """Draw when a GPU failed, and when the other ranks reported it."""
    (node, failed), reports = read()
    first = min(at for *_, at in reports.values())
    nodes = sorted({node for node, *_ in reports.values()})
    groups: dict[str, list[Lane]] = {}
    rows = []
    for number, name in enumerate(nodes):
        group = groups.setdefault(name, [])
        if name == node:
            mark = (failed, failed + FAULT_SHOWN, FAILS)
            span = (failed, first, f"{first - failed:.0f} minutes")
            group.append(Lane("kernel", [mark], [span]))
            rows.append(["kernel", name, "–", "Xid 79", clock(failed)])
        for rank in range(number * GPUS, (number + 1) * GPUS):
            label = f"rank {rank}"
            if rank not in reports:
                silent = (failed, first, "prints nothing")
                group.append(Lane(label, [(0, failed, TRAINS)], [silent]))
                rows.append([label, name, clock(failed), "nothing", "–"])
                continue
            _, start, at = reports[rank]
            spans = [
                (0, start, TRAINS),
                (start, at, WAITS),
                (at, at + SHOWN, REPORTS),
            ]
            group.append(Lane(label, spans))
            rows.append([label, name, clock(start), "a timeout", clock(at)])
    quiet = GPUS * len(nodes) - len(reports)
    axis = Axis("minutes after 03:00", [*range(14)])
    return Chart(
        f"A GPU of {node} fails at {clock(failed)}. {len(reports)} of"
        f" {GPUS * len(nodes)} ranks report a timeout, ten minutes later",
        f"Timelines of {GPUS * len(nodes)} ranks on {len(nodes)} nodes and of"
        f" the kernel of {node}. The kernel logs the fault at {clock(failed)}."
        f" Within two seconds, {len(reports)} ranks wait in a collective. From"
        f" {clock(first)} on, {first - failed:.0f} minutes after the fault,"
        f" they report a timeout. {quiet} rank on {node}"
        " trains until the fault and reports nothing.",
        lanes(groups, KINDS, axis),
        [
            ["who", "node", "stops training", "logs", "at"],
            *rows,
        ],
    )
