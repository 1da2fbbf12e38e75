"""Name a cause: a message, or a signal that no message explains."""

from .case import TOGETHER, Case, depth, equal
from .collectives import waiting
from .finding import base, finished, listed, page, shown
from .network import lost_peer
from .order import first
from .owners import KERNEL_AFTER
from .signals import FATAL, SIGNALS, signal_of
from .silence import silence

SURVIVED = 30.0  # seconds, after which a rank that raised would be gone


def blame(case: Case, event) -> dict:  # type: ignore[no-untyped-def]
    """Name a cause."""
    found = base(case, event)
    ranks, many = shared(case, event, found)
    if not many and event.blamed is not None and event.layer == "peer":
        found["rank"], found["ranks"] = event.blamed, [event.blamed]
        found["node"] = case.nodes.get(event.blamed, "")
    elif (
        not many
        and event.blamed is not None
        and event.rank not in (None, event.blamed)
    ):
        # Two ranks that differ: the message can't say which is wrong.
        found["rank"] = None
        found["ranks"] = sorted({event.rank, event.blamed})
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
        found["rank"], found["ranks"] = None, ranks
        found["node"] = event.node if len(nodes) == 1 else ""
        found["evidence"] = [shown(case, e) for e in same[:3]]
    elif len({e.local for e in same}) > 1 and not ranks:
        if not apart_in_time(case, same):
            found["local"] = f"{len({e.local for e in same})} local ranks"
    elif len(ranks) == 1 and event.rank is None:
        # The library's own line has no rank, but the exception has.
        found["rank"], found["ranks"] = ranks[0], ranks
    return ranks, many


def apart_in_time(case: Case, events: list) -> bool:
    """Whether the first of equal events came clearly before the others."""
    times = sorted([case.at(e) for e in events if case.at(e) is not None])
    if len(times) < len(events):
        return False
    return times[1] - times[0] > TOGETHER


def fatal_exit(case: Case):  # type: ignore[no-untyped-def]
    """Return the exit by a signal that no message explains, or None."""
    found = [one for one in case.scan.exits if signal_of(one.code) in FATAL]
    if not found:
        return None
    firsts = [one for one in found if one.first]
    reported = [one for one in case.scan.exits if one.first]
    if reported and not firsts:
        if not all(is_victim(case, one) for one in reported):
            return None  # ended by the launcher, after another one failed
        found = [one for one in found if not forced(case, one)]
        if not found:
            return None
    return min(
        firsts or found, key=lambda one: (case.at(one) or 1e18, one.order)
    )


def is_victim(case: Case, one) -> bool:  # type: ignore[no-untyped-def]
    """Whether a process aborted only because it lost its peers: its own log
    has echoes, and nothing that explains the abort."""
    own = [
        event
        for event in case.scan.events
        if event.rank is not None and event.rank == one.rank
    ]
    echoes = [event for event in own if event.role == "echo"]
    causes = [event for event in own if event.role == "cause"]
    return signal_of(one.code) == 6 and bool(echoes) and not causes


def forced(case: Case, one) -> bool:  # type: ignore[no-untyped-def]
    """Whether torchrun itself killed a process that didn't stop in time."""
    kills = [
        event.pid
        for event in case.scan.events
        if event.id == "unable-to-shutdown-process" and event.file == one.file
    ]
    return one.pid in kills


def reported_first(case: Case):  # type: ignore[no-untyped-def]
    """Return the process that torchrun saw fail first."""
    return next(one for one in case.scan.exits if one.first)


def killed(case: Case, one) -> dict:  # type: ignore[no-untyped-def]
    """Name a signal that nothing else explains."""
    signal = signal_of(one.code)
    usual, layer, do, look = FATAL[signal]
    found = {
        "known": True,
        "id": f"exitcode-{signal}",
        "title": f"{SIGNALS[signal]} ended a process",
        "layer": layer,
        "rank": one.rank,
        "ranks": [] if one.rank is None else [one.rank],
        "node": one.node or case.nodes.get(one.rank, ""),
        "text": one.text,
        "frame": "",
        "means": f"Signal {signal} ended the process; usually {usual}.",
        "check": [{"do": do, "look": look}],
        "causes": [],
        "otherwise": "",
        "see": ["reliability/failures/index.md"],
        "page": "",
        "evidence": [shown(case, one)],
    }
    # The data may have an entry for that exit code, with a page.
    words = [w for w in case.scan.index.words if w in one.text]
    for n, _ in case.scan.index.match(one.text, words):
        entry = case.scan.index.entries[n]
        if entry["role"] != "echo":
            found["id"], found["page"] = entry["id"], page(entry["id"])
            found["check"] = entry.get("confirm", [])
            found["causes"] = entry.get("causes", [])
            break
    if one.rank is None and one.local is not None:
        found["local"] = f"local rank {one.local}"
    equal = [e for e in case.scan.exits if e.code == one.code]
    if len(equal) > 1 and one.rank is not None:
        ranks = sorted({e.rank for e in equal if e.rank is not None})
        found["ranks"] = ranks
    why = "a signal can't be an echo unless the launcher sent it"
    if one.first:
        why = "torchrun saw this process fail first, without an exception"
    elif case.reported and is_victim(case, reported_first(case)):
        who = reported_first(case)
        why += (
            f", and rank {who.rank}, which torchrun reported first, only lost"
            " its peers"
        )
    return finished(case, found, "medium", why)


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
