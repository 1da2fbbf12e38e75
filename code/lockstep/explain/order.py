"""Choose the event that came first."""

from .case import TOGETHER, Case, depth, is_machine
from .owners import KERNEL_AFTER, KERNEL_BEFORE

# A cause is at most so long before its first echo: the longest usual timeout.
WINDOW = 2700.0


def timely(case: Case, causes: list) -> list:
    """Drop causes from long before the failure: an Xid of last week in a
    kernel's log, an exception that the program survived."""
    # A machine's warnings come at any time and don't date the failure.
    echoes = [
        e
        for e in case.scan.events
        if e.role != "cause"
        and (e.role == "echo" or e.rank is not None or not is_machine(e))
    ]
    times = [case.at(e) for e in echoes + case.scan.exits if case.at(e)]
    other = [case.at(e) for e in causes if depth(e) and case.at(e)]
    if not times and not other:
        return causes
    end = min(times or other)
    kept = []
    for event in causes:
        at = case.at(event)
        early = KERNEL_BEFORE if not depth(event) and not times else WINDOW
        if at is None or at >= end - early:
            kept.append(event)
    # An old exception is better than none, but not an old kernel's line.
    return kept or [event for event in causes if depth(event)]


def first(case: Case, events: list):  # type: ignore[no-untyped-def]
    """Return the event that came first, or that explains the first."""
    timed = [e for e in events if case.at(e) is not None]
    if not timed:
        return min(events, key=lambda one: rising(case, one))
    start = min([case.at(e) for e in timed])
    early = [e for e in timed if case.at(e) <= start + TOGETHER]
    best = min(early, key=lambda one: rising(case, one))
    untimed = [e for e in events if case.at(e) is None]
    if best.layer == "scheduler" and untimed:
        # A job that hangs after an exception ends at its time limit.
        return min(untimed, key=lambda one: rising(case, one))
    # What a kernel says made what the programs on its node say.
    for event in events:
        if depth(event) or event is best or not depth(best):
            continue
        same = not event.node or not best.node or event.node == best.node
        late = case.at(event)
        near = late is None or (
            -KERNEL_BEFORE <= late - case.at(best) <= KERNEL_AFTER
        )
        if same and near:
            return event
    return best


def rising(case: Case, event) -> tuple:  # type: ignore[no-untyped-def]
    """Sort events: those of kernels and schedulers first, and of these
    the ones that name a process; then those of the ranks that torchrun
    saw fail first; then by time."""
    deep = depth(event)
    silent = 0 if deep or event.exact else 1
    later = int(event.rank is None or event.rank not in case.reported)
    return deep, silent, later, case.at(event) or 0, event.order
