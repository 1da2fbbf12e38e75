"""Compare the ranks' collectives, and find whom the ranks wait for.

A rank that waits for another suspect is a victim, so the suspects are the
ranks at the ends of the chains of who waits for whom.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

# Entries of one process group, by rank and sequence number.
Calls = dict[int, dict[int, dict[str, Any]]]
Difference = dict[str, Any]

# Kinds of differences, the surest first. The first three name a rank that did
# something else than its peers; the others are guesses.
KINDS = ("different", "not joined", "not completed", "behind", "no dump")
GUESSES = KINDS[3:]


def found(
    name: str, calls: Calls, finished: dict[int, int],
    empty: list[int], absent: list[int],
) -> list[Difference]:  # fmt: skip
    """Return the differences in one process group, by sequence number.

    Args:
        name: the group's.
        calls: of the members that left a dump.
        finished: the last collective that a rank completed, where known.
        empty: ranks whose dumps have no entries at all.
        absent: members that left no dump.

    Returns:
        for each difference its `kind`, `seq`, `op`, `title` and `why`, the
        `suspects`, who `waited` for them, and what each rank `did`.
    """
    last = {rank: max(seqs, default=-1) for rank, seqs in calls.items()}
    done, front = {}, {}
    for rank, seqs in calls.items():
        done[rank] = finished.get(rank, -1)
        if any(_of_gloo(entry) for entry in seqs.values()):
            # gloo's entries stay scheduled, and its status lags.
            done[rank], front[rank] = -1, last[rank]
            continue
        ended = [seq for seq, entry in seqs.items() if _completed(entry)]
        done[rank] = max([done[rank], *ended])
        pending = [seq for seq in seqs if seq > done[rank]]
        if pending:
            front[rank] = min(pending)
    differences = []
    numbers = sorted({seq for seqs in calls.values() for seq in seqs})
    for seq in numbers:
        at = {r: seqs[seq] for r, seqs in calls.items() if seq in seqs}
        waiting = sorted(rank for rank, first in front.items() if first == seq)
        missing = [rank for rank in sorted(calls) if last[rank] < seq]
        if waiting and missing:
            differences.append(
                _not_joined(name, calls, seq, at, waiting, missing)
            )
        if len({_kind(entry) for entry in at.values()}) > 1:
            differences.append(_different(name, seq, at))
            break
        ahead = sorted(rank for rank in calls if done[rank] >= seq)
        if waiting and ahead and not missing:
            differences.append(_not_completed(name, seq, at, waiting, ahead))
    if not differences:
        # A full ring buffer may have lost a completed call.
        lost = [r for r in calls if not calls[r] and r not in empty]
        known = {rank: seq for rank, seq in last.items() if rank not in lost}
        for seq in numbers:
            if seq <= min(known.values()):
                continue
            at = {r: seqs[seq] for r, seqs in calls.items() if seq in seqs}
            missing = [rank for rank in sorted(known) if last[rank] < seq]
            one = _not_joined(name, calls, seq, at, sorted(at), missing)
            if front:
                one["kind"] = "behind"
            differences.append(one)
            break
    if absent:
        late = [r for r in front if front[r] > max(done.values())]
        differences.append(_no_dump(name, sorted(late), absent))
    return differences


def _not_joined(
    name: str, calls: Calls, seq: int, at: dict[int, Any],
    waiting: list[int], missing: list[int],
) -> Difference:  # fmt: skip
    op = _op(at[waiting[0]])
    ends = [rank for rank in missing if calls[rank]]
    without = [rank for rank in missing if not calls[rank]]
    parts = []
    if ends:
        parts.append(f"{_dumps(ends, 'ends', 'end')} before it")
    if without:
        parts.append(f"{_dumps(without, 'has', 'have')} no call of the group")
    why = (
        f"in {name}, {_dumps(waiting, 'has', 'have')} collective {seq} ({op}),"
        f" and {', and '.join(parts)}"
    )
    title = f"{op} number {seq} wasn't joined by all ranks"
    return _difference("not joined", seq, at, waiting, missing, title, why)


def _different(name: str, seq: int, at: dict[int, Any]) -> Difference:
    kinds: dict[tuple[str, str], list[int]] = defaultdict(list)
    for rank, entry in sorted(at.items()):
        kinds[_kind(entry)].append(rank)
    order = sorted(kinds, key=lambda kind: (len(kinds[kind]), kind))
    rare, usual = order[0], order[-1]
    suspects = sorted(r for kind in order[:-1] for r in kinds[kind])
    if 2 * len(suspects) >= len(at):
        suspects = sorted(at)
    waited = [rank for rank in kinds[usual] if rank not in suspects]
    why = (
        f"in {name}, {_list(kinds[rare])} called {' '.join(rare)}, and"
        f" {_list(kinds[usual])} called {' '.join(usual)}"
    )
    title = f"ranks called different collectives as number {seq}"
    return _difference("different", seq, at, waited, suspects, title, why)


def _not_completed(
    name: str, seq: int, at: dict[int, Any], late: list[int], ahead: list[int]
) -> Difference:
    op = _op(at[late[0]])
    why = (
        f"in {name}, {_list(ahead)} completed collective {seq} ({op}), and"
        f" {_list(late)} didn't"
    )
    title = f"{op} number {seq} completed on some ranks only"
    return _difference("not completed", seq, at, [], late, title, why)


def _no_dump(name: str, waiting: list[int], absent: list[int]) -> Difference:
    why = f"{_list(absent)} left no dump"
    if waiting:
        why += (
            f", and {_dumps(waiting, 'has', 'have')} a pending call of {name}"
        )
    return {
        "kind": "no dump", "seq": None, "op": "", "did": [],
        "waited": waiting, "suspects": absent,
        "title": "no dump of some ranks", "why": why,
    }  # fmt: skip


def _difference(
    kind: str, seq: int, at: dict[int, Any], waited: list[int],
    suspects: list[int], title: str, why: str,
) -> Difference:  # fmt: skip
    did = [
        {"rank": rank, "op": _op(entry), "sizes": _sizes(entry),
         "state": entry.get("state", ""), "frame": _frame(entry)}
        for rank, entry in sorted(at.items())
    ]  # fmt: skip
    return {
        "kind": kind, "seq": seq, "op": did[0]["op"], "did": did,
        "waited": waited, "suspects": suspects, "title": title, "why": why,
    }  # fmt: skip


def verdict(differences: list[Difference]) -> dict[str, Any]:
    """Return the `suspects` of all process groups, the surest first, with
    `title`, `why`, `means` and `sure`; all empty if the dumps agree."""
    reached = _reached(differences)
    best: dict[int, Difference] = {}
    for one in sorted(differences, key=lambda one: KINDS.index(one["kind"])):
        for rank in one["suspects"]:
            if all(rank in reached[other] for other in reached[rank]):
                best.setdefault(rank, one)
    kinds = {rank: one["kind"] for rank, one in best.items()}
    order = sorted(best, key=lambda rank: (KINDS.index(kinds[rank]), rank))
    sure = [rank for rank in order if kinds[rank] not in GUESSES]
    sure = sure or [rank for rank in order if kinds[rank] == kinds[order[0]]]
    said = {"suspects": sure, "title": "", "why": "", "means": "", "sure": ""}
    if not sure:
        return said
    first = best[sure[0]]
    said["title"] = first["title"]
    said["sure"] = "low" if first["kind"] in GUESSES else "medium"
    if first["waited"] and first["seq"] is not None:
        said["means"] = f"{_list(first['waited'])} waited in it."
    reasons: list[str] = []
    for rank in sure:
        why = best[rank]["why"]
        if kinds[rank] != first["kind"]:
            why = f"perhaps {_list([rank])}, too: {why}"
        if why not in reasons:
            reasons.append(why)
    gone = [r for r in order if kinds[r] == "no dump" and r not in sure]
    if gone:
        reasons.append(f"perhaps {_list(gone)}, too: no dump")
    said["why"] = "; ".join(reasons)
    return said


def _reached(differences: list[Difference]) -> dict[int, set[int]]:
    """Return whom each rank waits for, itself or through others."""
    reached: dict[int, set[int]] = defaultdict(set)
    for one in differences:
        if one["kind"] == "behind":
            continue  # its ranks wait in an earlier call
        for rank in one["waited"]:
            reached[rank] |= set(one["suspects"])
    for rank in [*reached]:
        new = [*reached[rank]]
        while new:
            further = reached[new.pop()] - reached[rank]
            reached[rank] |= further
            new += further
    return reached


def _completed(entry: dict[str, Any]) -> bool:
    return entry.get("state") == "completed"


def _of_gloo(entry: dict[str, Any]) -> bool:
    return str(entry.get("profiling_name", "")).startswith("gloo:")


def _op(entry: dict[str, Any]) -> str:
    return str(entry.get("profiling_name", "")).rpartition(":")[2]


def _sizes(entry: dict[str, Any]) -> str:
    return str(entry.get("input_sizes", ""))


def _kind(entry: dict[str, Any]) -> tuple[str, str]:
    """Return what must be equal on all ranks: the operation, and the input's
    sizes unless ranks may differ in them."""
    op = _op(entry)
    free = ("all_to_all", "gather", "scatter", "v", "coalesced", "barrier")
    return op, "" if op.endswith(free) else _sizes(entry)


def _frame(entry: dict[str, Any]) -> str:
    """Return the innermost frame outside of torch."""
    for frame in entry.get("frames") or []:
        file = str(frame.get("filename", ""))
        if "/torch/" not in file and file:
            return f"{file}:{frame.get('line')} {frame.get('name')}"
    return ""


def _dumps(ranks: list[int], one: str, more: str) -> str:
    if len(ranks) == 1:
        return f"the dump of {_list(ranks)} {one}"
    return f"the dumps of {_list(ranks)} {more}"


def _list(ranks: list[int]) -> str:
    names = ", ".join(str(rank) for rank in ranks)
    return f"rank {names}" if len(ranks) == 1 else f"ranks {names}"
