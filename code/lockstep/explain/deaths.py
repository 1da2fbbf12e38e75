"""Name a process that a signal ended and that no message explains."""

from .case import Case
from .finding import finished, nothing, page, shown
from .signals import FATAL, SIGNALS, signal_of


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
    found = nothing() | {
        "known": True,
        "id": f"exitcode-{signal}",
        "title": f"{SIGNALS[signal]} ended a process",
        "layer": layer,
        "rank": one.rank,
        "ranks": [] if one.rank is None else [one.rank],
        "node": one.node or case.nodes.get(one.rank, ""),
        "text": one.text,
        "means": f"Signal {signal} ended the process; usually {usual}.",
        "check": [{"do": do, "look": look}],
        "see": ["reliability/failures/index.md"],
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
