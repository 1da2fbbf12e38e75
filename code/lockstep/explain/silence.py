"""Tell who ended a job: a scheduler after a hang, or a signal to one node."""

from .case import TOGETHER, Case
from .finding import base, cited, finished, suspect
from .lines import clock
from .order import first
from .progress import apart

SIGNALED = 30.0  # seconds in which a scheduler signals all nodes of a job
SILENT = 10  # minutes without a line, before a scheduler ended the job


def stalled(case: Case, event):  # type: ignore[no-untyped-def]
    """Say that a job hung before a scheduler ended it, and which ranks
    logged something else than the others before that; or None."""
    if event.layer != "scheduler" or "CANCELLED AT" not in event.text:
        return None
    if event.role == "cause" and "TIME LIMIT" not in event.text:
        return None  # preempted, or the node failed
    hung = silence(case, event)
    if not hung:
        return None
    found = base(case, event)
    found["known"], found["stalled"] = True, True
    found["title"] = "the job hung, and the scheduler only ended it"
    suspect(found, [])
    found["node"] = ""
    found["causes"] = []
    found["means"] = (
        "No rank logged any progress for a long time before the scheduler"
        " ended the job. Its message is the end of a hang, not the fault."
    )
    found["check"] = [
        {
            "do": "py-spy dump --pid PID on every rank, if it hangs again",
            "look": "the ranks whose main thread stands elsewhere",
        },
        {
            "do": "the last line of each rank",
            "look": "a branch that not all ranks take, with a collective"
            " in it: saving, evaluation, an early exit",
        },
    ]
    why = f"{hung}, so the job may have hung before it was ended"
    last: dict = {}
    for number, one in enumerate(case.scan.last):
        for rank in one["ranks"]:
            last[rank] = dict(one["ranks"][rank], file=number)
    odd = apart(last)
    if not odd:
        return finished(case, found, "low", why)
    ranks, usual = odd
    suspect(found, ranks)
    nodes = {last[r]["node"] or case.nodes.get(r, "") for r in ranks}
    found["node"] = min(nodes) if len(nodes) == 1 else ""
    found["title"] = "logged something else last, and then the job hung"
    found["evidence"] = [
        cited(case, one["file"], one["line"], one["text"], one["time"])
        for one in (last[ranks[0]], last[usual[0]])
    ] + found["evidence"]
    others = f"{len(usual)} other ranks ended with an equal line"
    return finished(case, found, "medium", f"{others}, and {hung}")


def silence(case: Case, event) -> str:  # type: ignore[no-untyped-def]
    """Say how long no rank had logged anything when a scheduler ended the
    job, if that was long."""
    if event.layer != "scheduler" or case.at(event) is None:
        return ""
    # A preempted job is told some minutes before it is ended.
    told = [e for e in case.scan.events if e.layer == "scheduler"]
    at = min([case.at(e) for e in told if case.at(e) is not None])
    ends = [
        (case.seconds(one["time"]), n)
        for n, one in enumerate(case.scan.last)
        if one["time"]
    ]
    if not ends:
        return ""
    end, number = max(ends)
    minutes = (at - end) / 60
    if minutes < SILENT:
        return ""
    when = clock(case.scan.last[number]["time"][1])
    return f"the last line of a rank ({when}) is {minutes:.0f} minutes older"


def stopped_agent(case: Case):  # type: ignore[no-untyped-def]
    """Name the node whose torchrun was told to stop while the other nodes'
    ranks only lost their peers; or None."""
    told = [e for e in case.scan.events if "death signal, shutting" in e.text]
    if not told:
        return None
    event = first(case, told)
    others = [e for e in told if e.node != event.node]
    soon = [e for e in others if (case.gap(e, event) or 0) <= SIGNALED]
    if not event.node or soon:
        return None
    lost = [
        e
        for e in case.scan.events
        if e.role == "echo"
        and e.layer == "peer"
        and e.rank is not None
        and e.node != event.node
    ]
    earlier = [
        e for e in lost if (case.at(e) or 1e18) < case.at(event) - TOGETHER
    ]
    if not lost or earlier:
        return None
    found = base(case, event)
    suspect(found, [])
    why = (
        "its torchrun was the first to receive a signal, before ranks of the"
        " other nodes lost their peers: find out who sent it"
    )
    return finished(case, found, "medium", why)
