"""Decide which event was the first fault, and which are its echoes."""

from .case import Case
from .causes import blame, culprit, perhaps
from .collectives import (
    absent_ranks,
    awaited_key,
    by_dumps,
    named_by_barrier,
    waiting,
)
from .deaths import fatal_exit, killed
from .network import parted_agents, unreachable
from .order import first, timely
from .owners import settle
from .scan import Scan
from .silence import stalled, stopped_agent
from .unknown import MACHINE, unknown

# Messages that report how a process ended and not why, or only warn.
REPORTS = (
    "guessing-device-id-based-on-global-rank",
    "exitcode-1",
    "exitcode-minus-6-sigabrt",
    "process-group-watchdog-thread-terminated-with-exception",
    "received-death-signal",
    "root-cause-first-observed-failure",
    "slurm-exited-with-exit-code",
)


def judge(scan: Scan, dumps: dict | None = None) -> dict:
    """Return the verdict on what a scan found.

    Args:
        scan: a finished Scan.
        dumps: what the flight recorder's dumps say, if there were any.

    Returns:
        `known`: whether a first fault is named; `headline`; `id`, `title` and
        `text` of the message; `rank`, `ranks` and `node` that it points to;
        `confidence` in words, and `why`; `evidence`; `check` and `causes` from
        the message's entry; `hang`; `echoes`; `exits`; `questions` to ask if
        nothing is known.
    """
    case = Case(scan, dumps)
    settle(case)
    causes = [e for e in scan.events if e.role == "cause" and not e.wrapped]
    causes = timely(case, causes)
    cause = culprit(case, causes)
    if cause:
        return stalled(case, cause) or blame(case, cause)
    exit_ = fatal_exit(case)
    if exit_:
        return killed(case, exit_)
    if case.dumps and case.dumps.get("suspects"):
        return by_dumps(case)
    named = (
        named_by_barrier(case)
        or awaited_key(case)
        or parted_agents(case)
        or unreachable(case)
        or stopped_agent(case)
    )
    if named:
        return named
    others = [
        e for e in scan.events if e.role == "either" and e.id not in REPORTS
    ]
    # What a machine says is no echo of a collective that timed out.
    machine = [e for e in others if e.layer in MACHINE]
    # How a container ended says less than anything else.
    machine = [
        e for e in machine if e.id != "kubernetes-exit-code-137"
    ] or machine
    if machine:
        return perhaps(case, first(case, machine))
    hang = waiting(case)
    if hang and hang["suspects"]:
        return absent_ranks(case, hang)
    if causes:
        return blame(case, first(case, causes))
    if not hang and not others:
        for event in scan.events:
            ended = stalled(case, event)
            if ended:
                return ended
    if others and not hang:
        return perhaps(case, first(case, others))
    return unknown(case, hang)
