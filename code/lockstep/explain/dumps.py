"""Read the flight recorder's dumps: the first collective that diverged.

torch writes one file for each rank (`TORCH_FR_DUMP_TEMP_FILE`), a pickle of
plain data. It is read here without torch, by an unpickler that refuses
everything but plain data, so that a dump can't run code.
"""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

LIMITS = (
    "Ranks are compared by the collectives' sequence numbers, so a ring buffer"
    " that lost the beginning of the program on some ranks is compared only"
    " from where all ranks have entries; point-to-point calls and coalesced"
    " groups aren't matched. torchfrtrace has the first limit too, and doesn't"
    " look at whether a collective completed."
)


class DumpError(Exception):
    """A dump that can't be read, in one line."""


class _Plain(pickle.Unpickler):
    """Plain data only."""

    def find_class(self, module: str, name: str) -> Any:
        raise DumpError(f"it wants to import {module}.{name}: not plain data")


def read(path: Path, data: bytes) -> dict[str, Any]:
    """Return a dump's content.

    Raises:
        DumpError: it is damaged, or holds anything but plain data.
    """
    try:
        if data[:1] == b"{":
            dump = json.loads(data)
        else:
            dump = _Plain(io.BytesIO(data)).load()
        if not isinstance(dump, dict) or "entries" not in dump:
            raise DumpError("no entries")
    except DumpError as error:
        raise DumpError(f"{path}: {error}") from None
    except Exception:
        raise DumpError(f"{path} is a damaged dump") from None
    return dump


def rank_of(path: Path) -> int:
    """Return the rank that a dump's name ends with.

    Raises:
        DumpError: it ends with no number.
    """
    digits = ""
    for char in reversed(path.stem if path.suffix == ".json" else path.name):
        if not char.isdigit():
            break
        digits = char + digits
    if not digits:
        raise DumpError(f"{path}: the name of a dump ends with its rank")
    return int(digits)


def compared(dumps: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """Return where the ranks' collectives first diverge.

    Args:
        dumps: content by rank.

    Returns:
        `groups`: for each process group its `name`, its `members`, the
        members that are `absent` (without a dump), and `first`, the first
        collective that diverges, if any, with `seq`, `op`, what each rank
        `did`, and who `waited`; `suspects`, `title`, `why` and `sure` for the
        verdict; `limits`.
    """
    groups: dict[str, dict[int, dict[int, Any]]] = defaultdict(dict)
    members: dict[str, list[int]] = {}
    names: dict[str, str] = {}
    for rank, dump in sorted(dumps.items()):
        for key, config in (dump.get("pg_config") or {}).items():
            key = str(config.get("name", key))
            names[key] = str(config.get("desc") or key)
            with contextlib.suppress(ValueError):
                ranks = config.get("ranks", "[]")
                given = json.loads(ranks) if isinstance(ranks, str) else ranks
                members[key] = sorted(int(one) for one in given)
        for entry in dump["entries"]:
            if entry.get("is_p2p"):
                continue
            name = entry.get("process_group") or entry.get("pg_name") or ("0",)
            key = str(name[0] if isinstance(name, (list, tuple)) else name)
            if isinstance(name, (list, tuple)) and len(name) > 1:
                names.setdefault(key, str(name[1]))
            seq = int(entry.get("collective_seq_id", entry.get("seq_id", 0)))
            groups[key].setdefault(rank, {})[seq] = entry
    found: dict[str, Any] = {
        "groups": [], "suspects": [], "title": "", "why": "", "sure": "",
        "means": "",
        "limits": LIMITS, "ranks": sorted(dumps), "torchfrtrace": "",
    }  # fmt: skip
    for key, by_rank in groups.items():
        listed = members.get(key, [])
        if not listed and len(members) == 1:
            # gloo's dumps don't name the group that they describe.
            [listed] = members.values()
        group = _group(names.get(key, key), by_rank, listed)
        found["groups"].append(group)
    for group in found["groups"]:
        first = group["first"]
        if first and not found["suspects"]:
            found["suspects"] = first["suspects"]
            found["title"], found["why"] = first["title"], first["why"]
            found["sure"] = "medium"
            found["means"] = f"{_list(first['waited'])} waited in it."
    for group in found["groups"]:
        if group["absent"] and not found["suspects"]:
            found["suspects"] = group["absent"]
            found["title"] = "no dump of some ranks"
            found["why"] = (
                "the other ranks agree on every collective, and these ranks"
                " left no dump"
            )
            found["sure"] = "low"
    return found


def _group(
    name: str, by_rank: dict[int, dict[int, Any]], members: list[int]
) -> dict[str, Any]:
    """Compare the collectives of one process group."""
    absent = [rank for rank in members if rank not in by_rank]
    begin = max(min(seqs) for seqs in by_rank.values() if seqs)
    last = {rank: max(seqs) for rank, seqs in by_rank.items()}
    first = None
    for seq in range(begin, max(last.values()) + 1):
        at = {rank: seqs.get(seq) for rank, seqs in by_rank.items()}
        first = _diverges(seq, at)
        if first:
            break
    return {
        "name": name, "members": members, "absent": absent,
        "last": [{"rank": r, "seq": last[r]} for r in sorted(last)],
        "first": first,
    }  # fmt: skip


def _diverges(seq: int, at: dict[int, Any]) -> dict[str, Any] | None:
    """Return how ranks differ at one sequence number, or None."""
    kinds: dict[tuple[str, str], list[int]] = defaultdict(list)
    missing = sorted(rank for rank, entry in at.items() if entry is None)
    for rank, entry in sorted(at.items()):
        if entry is not None:
            kinds[_kind(entry)].append(rank)
    did = [
        {"rank": rank, "op": _op(entry), "sizes": _sizes(entry),
         "state": entry.get("state", ""), "frame": _frame(entry)}
        for rank, entry in sorted(at.items()) if entry is not None
    ]  # fmt: skip
    order = sorted(kinds, key=lambda kind: (len(kinds[kind]), kind))
    if missing and order:
        op = order[-1][0]
        waited = kinds[order[-1]]
        title = f"{op} number {seq} wasn't joined by all ranks"
        why = (
            f"the dumps of {_list(waited)} have collective {seq} ({op}); the"
            f" dumps of {_list(missing)} end before it"
        )
        return _first(seq, op, did, waited, missing, title, why)
    if len(order) > 1:
        rare, usual = order[0], order[-1]
        suspects = sorted(r for kind in order[:-1] for r in kinds[kind])
        if 2 * len(suspects) > len(at):
            suspects = sorted(at)
        title = f"ranks called different collectives as number {seq}"
        why = (
            f"{_list(kinds[rare])} called {' '.join(rare)}, and"
            f" {_list(kinds[usual])} called {' '.join(usual)}"
        )
        return _first(seq, usual[0], did, kinds[usual], suspects, title, why)
    states = {rank: entry.get("state") for rank, entry in at.items() if entry}
    done = [rank for rank, state in states.items() if state == "completed"]
    late = sorted(rank for rank in states if rank not in done)
    if late and done:
        title = f"{order[0][0]} number {seq} completed on some ranks only"
        why = (
            f"{_list(sorted(done))} completed collective {seq}, and"
            f" {_list(late)} didn't"
        )
        return _first(seq, order[0][0], did, done, late, title, why)
    return None


def _first(
    seq: int, op: str, did: list[dict[str, Any]], waited: list[int],
    suspects: list[int], title: str, why: str,
) -> dict[str, Any]:  # fmt: skip
    return {
        "seq": seq, "op": op, "did": did, "waited": waited,
        "suspects": suspects, "title": title, "why": why,
    }  # fmt: skip


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


def _list(ranks: list[int]) -> str:
    names = ", ".join(str(rank) for rank in ranks)
    return f"rank {names}" if len(ranks) == 1 else f"ranks {names}"


def torchfrtrace(folder: Path) -> str:
    """Return what torch's own analyzer prints about a folder of dumps, or
    why it printed nothing. Dumps must have been read before: it loads pickles
    without a check."""
    command = [
        sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace",
        str(folder), "--allow-incomplete-ranks",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2]
        return f"(it failed on these dumps: {last})"
    printed = (done.stdout + done.stderr).strip()
    return printed.removeprefix(
        "tabulate is not installed. Proceeding without it.\n"
    )[-4000:]
