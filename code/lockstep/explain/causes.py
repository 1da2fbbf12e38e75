"""Name the message that is the cause, or may be."""

from .case import TOGETHER, Case, depth, equal
from .collectives import waiting
from .finding import base, finished, listed, shown, suspect
from .network import lost_peer
from .order import first
from .owners import KERNEL_AFTER
from .silence import silence

SURVIVED = 30.0  # seconds, after which a rank that raised would be gone


def blame(case: Case, event) -> dict:  # type: ignore[no-untyped-def]
    """Name a cause."""
    found = base(case, event)
    ranks, many = shared(case, event, found)
    if not many and event.blamed is not None and event.layer == "peer":
        suspect(found, [event.blamed])
        found["node"] = case.nodes.get(event.blamed, "")
    elif (
        not many
        and event.blamed is not None
        and event.rank not in (None, event.blamed)
    ):
        # Two ranks that differ: the message can't say which is wrong.
        suspect(found, sorted({event.rank, event.blamed}))
    others = [
        e
        for e in case.scan.events
        if e.role == "cause"
        and not e.wrapped
        and not equal(e, event)
        and not (e.file == event.file and e.line == event.line)
    ]
    if many:
        why = (
            f"{listed(ranks)} logged it together, so look at what they"
            " share before you suspect a machine"
        )
        sure = "high"
    elif not others:
        why = "it is the only message here that is a cause, not an echo"
        sure = "high"
    elif case.at(event) is not None and all(
        case.at(e) is not None or leads(case, event, others) for e in others
    ):
        why = "it came before every other cause in these logs"
        sure = "medium"
    else:
        why = (
            "other causes are here too, and not all lines have a time:"
            f" see {others[0].title!r}"
        )
        sure = "low"
    if event.rank is not None and not many:
        for one in case.scan.exits:
            if one.first and one.rank == event.rank:
                why += "; torchrun saw this rank fail first"
                sure = "high"
    if survived(case, event) and not many:
        why += "; the process lived on after it and timed out with the others"
        hang = waiting(case)
        if hang and event.rank in hang["suspects"]:
            why += f", and {hang['why']}"
    if event.doubt and found["rank"] == event.rank:
        why += f"; its rank is less certain: {event.doubt}"
        sure = "medium" if sure == "high" else sure
    late = after_echoes(case, event)
    if late > KERNEL_AFTER and not many:
        sure = "low"
        why += (
            f", but it came {late:.0f} s after the first echo: compare clocks"
        )
    hung = silence(case, event)
    if hung:
        sure = "low"
        why = f"{hung}, so the job may have hung before it was ended"
    return finished(case, found, sure, why)


def after_echoes(case: Case, event) -> float:  # type: ignore[no-untyped-def]
    """Return how many seconds after the first echo a cause came, or 0."""
    echoes = [
        case.at(e)
        for e in case.scan.events
        if e.role == "echo" and e.rank is not None and e.time
    ]
    if not echoes or case.at(event) is None:
        return 0.0
    return max(0.0, case.at(event) - min(echoes))


def survived(case: Case, event) -> bool:  # type: ignore[no-untyped-def]
    """Whether a rank waited in a collective long after an error: its trainer
    caught the error."""
    if event.rank is None or event.rank not in case.scan.works:
        return False
    if case.at(event) is None:
        return False
    waits = [
        case.at(later)
        for later in case.scan.events
        if later.rank == event.rank and "WorkNCCL(" in later.text and later.time
    ]
    return any(at > case.at(event) + SURVIVED for at in waits)


def handled(case: Case, event) -> bool:  # type: ignore[no-untyped-def]
    """Whether the trainer says that it recovers from an error."""
    return any(
        other.id == "attempting-to-recover-from-oom"
        and (other.rank, other.file) == (event.rank, event.file)
        and (case.gap(other, event) or 0) <= TOGETHER
        for other in case.scan.events
    )


def culprit(case: Case, causes: list):  # type: ignore[no-untyped-def]
    """Return the cause that came first, or None. An error that a rank survived
    counts only if the rank left the others' collectives, or if there is no
    other error; an error that a trainer handled, only if the rank left."""
    hang = waiting(case)
    left = hang["suspects"] if hang else []
    open_ = [e for e in causes if e.rank in left or not handled(case, e)]
    sound = [e for e in open_ if e.rank in left or not survived(case, e)]
    found = sound or open_
    return first(case, found) if found else None


def leads(case: Case, event, others: list) -> bool:  # type: ignore[no-untyped-def]
    """Whether a kernel's line is older than all causes that have a time.
    Causes without a time don't count then: what programs and schedulers
    say follows from what a kernel says."""
    if depth(event) or event.layer == "scheduler":
        return False
    times = [case.at(e) for e in others if case.at(e) is not None]
    return not times or case.at(event) <= min(times)


def shared(case: Case, event, found: dict) -> tuple:  # type: ignore[no-untyped-def]
    """Return the ranks of the equal events, and whether several ranks
    logged it together; then the verdict names no single rank."""
    same = [e for e in case.scan.events if equal(e, event)]
    ranks = sorted({e.rank for e in same if e.rank is not None})
    many = len(ranks) > 1 and not apart_in_time(case, same)
    if many:
        nodes = {e.node for e in same}
        suspect(found, ranks)
        found["node"] = event.node if len(nodes) == 1 else ""
        found["evidence"] = [shown(case, e) for e in same[:3]]
    elif len({e.local for e in same}) > 1 and not ranks:
        if not apart_in_time(case, same):
            found["local"] = f"{len({e.local for e in same})} local ranks"
    elif len(ranks) == 1 and event.rank is None:
        # The library's own line has no rank, but the exception has.
        suspect(found, ranks)
    return ranks, many


def apart_in_time(case: Case, events: list) -> bool:
    """Whether the first of equal events came clearly before the others."""
    times = sorted([case.at(e) for e in events if case.at(e) is not None])
    if len(times) < len(events):
        return False
    return times[1] - times[0] > TOGETHER


def perhaps(case: Case, event) -> dict:  # type: ignore[no-untyped-def]
    """Name a message that may be the cause."""
    lost = event.layer == "network" and lost_peer(case, event)
    if lost:
        return lost
    found = base(case, event)
    shared(case, event, found)
    return finished(
        case,
        found,
        "low",
        "this message can be the cause or an echo, and nothing here came"
        " before it",
    )
