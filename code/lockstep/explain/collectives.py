"""Name the ranks that the others waited for in a collective."""

from .case import Case
from .finding import base, finished, listed, nothing, suspect
from .order import first
from .peers import awaited

# Collectives in which every rank must give as many elements.
SIZED = (
    "ALLREDUCE",
    "BROADCAST",
    "REDUCE",
    "_ALLGATHER_BASE",
    "_REDUCE_SCATTER_BASE",
)


def waiting(case: Case):  # type: ignore[no-untyped-def]
    """Return who waited for what when the watchdogs gave up, or None.

    A rank that enqueued less than the others, that waits for something
    else, or that says nothing is a suspect.
    """
    works = {r: w for r, w in case.scan.works.items() if w}
    if not works:
        return None
    world = case.scan.world
    known = set(case.scan.ranks)
    if world:
        known |= set(range(world))
    else:
        known |= set(range(max(known) + 1)) if known else set()
    absent = sorted(known - set(works))
    found = {
        "works": [dict(works[r], rank=r) for r in sorted(works)],
        "absent": absent,
        "suspects": [],
        "why": "",
        "sure": "low",
    }
    behind = _behind(works, "enqueued") or _behind(works, "seq")
    if behind:
        ranks, low, high = behind
        found["suspects"] = ranks
        found["sure"] = "medium"
        found["why"] = (
            f"{listed(ranks)} got only as far as collective {low}; the"
            f" others were already at {high}"
        )
        return found
    odd = _odd(works, False) or _odd(works, True)
    if odd:
        ranks, theirs, others = odd
        found["suspects"], found["sure"] = ranks, "medium"
        found["did"] = "called a different collective than the others"
        found["why"] = (
            f"at the same number {listed(ranks)} called {theirs}, and the"
            f" others called {others}"
        )
        return found
    if absent and len(absent) <= max(1, len(known) // 2):
        found["suspects"] = absent
        found["sure"] = "medium" if world else "low"
        found["why"] = (
            f"{len(works)} of {len(known)} ranks waited for the same"
            f" collective, and {listed(absent)} logged nothing about it"
        )
    return found


def _behind(works: dict, name: str):  # type: ignore[no-untyped-def]
    """Return the ranks with the lowest number, that and the highest; None if
    all are equal, or if most are low."""
    values = {r: w[name] for r, w in works.items() if name in w}
    if len(values) < 2:
        return None
    low, high = min(values.values()), max(values.values())
    ranks = sorted([r for r in values if values[r] == low])
    if low == high or 2 * len(ranks) > len(values):
        return None
    return ranks, low, high


def _odd(works: dict, sized: bool):  # type: ignore[no-untyped-def]
    """Return the ranks of the rarer operation, and both; None if all agree.

    Args:
        works: for each rank the collective that it waited for.
        sized: whether the number of elements counts, where it must be equal.
    """
    counts: dict = {}
    for rank in works:
        op = works[rank].get("op")
        if op and sized:
            if op not in SIZED or works[rank].get("numel") is None:
                return None
            op += f" of {works[rank]['numel']} elements"
        if op:
            counts.setdefault(op, []).append(rank)
    if len(counts) < 2:
        return None
    order = sorted(counts, key=lambda op: (len(counts[op]), op))
    rare, usual = order[0], order[-1]
    if 2 * len(counts[rare]) > len(works):
        return None
    return sorted(counts[rare]), rare, usual


def absent_ranks(case: Case, hang: dict) -> dict:
    """Name the ranks that the others waited for."""
    events = [e for e in case.scan.events if "WorkNCCL(" in e.text]
    events = events or [e for e in case.scan.events if e.role != "cause"]
    found = base(case, first(case, events)) if events else nothing()
    suspects = hang["suspects"]
    own = [e for e in events if e.rank in suspects and "SeqNum=" in e.text]
    if own:  # the line of a victim explains it
        victim = found["evidence"]
        found = base(case, first(case, own))
        found["evidence"] += [
            one for one in victim if one not in found["evidence"]
        ]
    found["known"] = True
    suspect(found, suspects)
    nodes = sorted({case.nodes.get(r, "") for r in suspects} - {""})
    found["node"] = nodes[0] if len(nodes) == 1 else ""
    found["hang"] = hang
    found["means"] = (
        "The collective timed out because not every rank joined it. The"
        " ranks that complain are victims. A rank that hangs inside the"
        " NCCL call looks absent, too."
    )
    who = listed(suspects)
    found["check"] = [
        {
            "do": f"the last lines and the exit code of {who}",
            "look": "an exception, a signal, or a step that the others"
            " have passed",
        },
        {
            "do": "py-spy dump --pid PID on that rank, if it still runs",
            "look": "where the main thread stands",
        },
    ] + list(found["check"])
    return finished(case, found, hang["sure"], hang["why"])


def by_dumps(case: Case) -> dict:
    """Name what the flight recorder's dumps show."""
    found = nothing()
    dumps = case.dumps
    suspects = dumps["suspects"]
    found["known"] = True
    found["title"] = dumps["title"]
    suspect(found, suspects)
    found["means"] = dumps["means"]
    found["check"] = [
        {
            "do": f"the last lines and the exit code of {listed(suspects)}",
            "look": "why this rank didn't join",
        }
    ]
    return finished(case, found, dumps["sure"], dumps["why"])


def named_by_barrier(case: Case):  # type: ignore[no-untyped-def]
    """Name the rank that a barrier's message names."""
    for event in case.scan.events:
        if event.blamed is None or "arrier" not in event.text:
            continue
        if "failed to pass" not in event.text:
            continue
        found = base(case, event)
        suspect(found, [event.blamed])
        found["node"] = case.nodes.get(event.blamed, "")
        return finished(
            case,
            found,
            "medium",
            f"the barrier names rank {event.blamed} as the missing rank",
        )
    return None


def awaited_key(case: Case):  # type: ignore[no-untyped-def]
    """Name the rank whose key the other ranks waited for in vain, if it
    neither failed nor complained."""
    waits: dict = {}
    for event in case.scan.events:
        of = awaited(event.text)
        if of is not None:
            waits.setdefault(of, []).append(event)
    if len(waits) != 1:
        return None
    [(rank, events)] = waits.items()
    heard = [e.rank for e in case.scan.events + case.scan.exits]
    if rank in heard:
        return None
    found = base(case, first(case, events))
    victims = sorted({e.rank for e in events if e.rank is not None})
    who = listed(victims) if victims else "other ranks"
    suspect(found, [rank])
    found["node"] = case.nodes.get(rank, "")
    found["title"] = f"{who} waited for its key in the store"
    found["means"] = (
        f"Every rank gets NCCL's id from rank {rank} through the store."
        f" Rank {rank} hadn't come to that point when the timeout ended:"
        " it was still busy, for example with preparing data, or it hung."
    )
    found["check"] = [
        {
            "do": f"the last lines of rank {rank} before the timeout",
            "look": "a progress bar, a download, or a step that only this"
            " rank does",
        },
    ] + list(found["check"])
    why = f"{who} timed out, and rank {rank} logged no failure"
    return finished(case, found, "medium", why)
