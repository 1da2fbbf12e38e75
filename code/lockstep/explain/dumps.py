"""Read the flight recorder's dumps, and compare them.

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

from lockstep.explain import divergence

LIMITS = (
    "Collectives are compared by their sequence numbers, so a difference that"
    " the ring buffers have lost isn't found. Point-to-point calls and"
    " coalesced groups aren't matched. torchfrtrace compares states"
    " (COLLECTIVE_STATE_MISMATCH), but its culprit may be a rank that completed"
    " the collective."
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
    """Return where the ranks' collectives diverge, and who is to blame.

    Args:
        dumps: content by rank.

    Returns:
        `groups`, those that diverge first, each with its `name`, its
        `members`, the members that are `absent` (without a dump), and `first`,
        the first collective that diverges, if any, with `seq`, `op`, what each
        rank `did`, and who `waited`; `suspects`, the surest first, `title`,
        `why` and `sure` for the verdict; `limits`.
    """
    groups: dict[str, divergence.Calls] = defaultdict(dict)
    finished: dict[str, dict[int, int]] = defaultdict(dict)
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
            ended = finished[key].get(rank, -1)
            finished[key][rank] = max(ended, _finished(dump, entry, seq))
    found: dict[str, Any] = {
        "groups": [], "limits": LIMITS, "ranks": sorted(dumps),
        "torchfrtrace": "",
    }  # fmt: skip
    empty = [rank for rank, dump in dumps.items() if not dump["entries"]]
    differences: list[divergence.Difference] = []
    for key, by_rank in groups.items():
        listed = members.get(key, [])
        if not listed and len(members) == 1:
            # gloo's dumps don't name the group that they describe.
            [listed] = members.values()
        here = sorted(set(by_rank) | set(listed) & set(dumps))
        absent = [rank for rank in listed if rank not in dumps]
        name = names.get(key, key)
        calls = {rank: by_rank.get(rank, {}) for rank in here}
        of_group = divergence.found(name, calls, finished[key], empty, absent)
        differences += of_group
        first = next((one for one in of_group if one["seq"] is not None), None)
        last = [{"rank": r, "seq": max(by_rank[r])} for r in sorted(by_rank)]
        found["groups"].append({
            "name": name, "members": listed, "absent": absent,
            "last": last, "first": first,
        })  # fmt: skip
    found["groups"].sort(key=lambda group: group["first"] is None)
    return found | divergence.verdict(differences)


def _finished(dump: dict[str, Any], entry: dict[str, Any], seq: int) -> int:
    """Return the last collective of an entry's group that its rank completed,
    as the dump's status says, or -1. The status counts point-to-point calls
    instead, if the group's last call was one."""
    status = (dump.get("pg_status") or {}).get(str(entry.get("pg_id")), {})
    if status.get("last_enqueued_collective") != seq:
        return -1
    return int(status.get("last_completed_collective", -1))


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
