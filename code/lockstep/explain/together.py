"""One verdict on logs, dumps and stacks together."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lockstep.explain import catalog, dumps, reading, stacks
from lockstep.explain.finding import headline
from lockstep.explain.patterns import Index
from lockstep.explain.verdict import judge


def explained(
    files: Iterable[Path | None],
    index: Index,
    progress: reading.Progress = lambda read: None,
) -> dict[str, Any]:
    """Return the verdict on files.

    Args:
        files: as `reading.found` returns them.
        index: messages to look for.
        progress: told the bytes of each block that was read.

    Raises:
        InputError: a file can't be read, or none is a log or a dump.
        DumpError: a dump is damaged.
    """
    scan, recorded, stood = reading.scan(files, index, progress)
    compared = _dumps(recorded) if recorded else None
    found = judge(scan, compared)
    if stood:
        found["stacks"] = stacks.compared(stood)
        _by_stacks(found)
    return found


def _dumps(recorded: list[tuple[Path, bytes]]) -> dict[str, Any]:
    """Compare dumps, by torch's analyzer too where torch is installed."""
    read = {
        dumps.rank_of(path): dumps.read(path, data) for path, data in recorded
    }
    compared = dumps.compared(read)
    if not catalog.has_torch():
        compared["torchfrtrace"] = "(torch isn't installed, so it didn't run)"
        return compared
    pickles = [path for path, data in recorded if data[:1] == b"\x80"]
    with TemporaryDirectory() as folder:
        for path in pickles:
            shutil.copy(path, Path(folder) / f"dump_{dumps.rank_of(path)}")
        compared["torchfrtrace"] = dumps.torchfrtrace(Path(folder))
    return compared


def _by_stacks(found: dict[str, Any]) -> None:
    """Let stacks name the rank if logs and dumps didn't."""
    compared = found["stacks"]
    if found.get("stalled"):
        _of_a_hang(found, compared)
        return
    if found["known"] or not compared["odd"]:
        return
    row = compared["odd"][0]
    who = f"process {row['pid']}"
    if row["rank"] is not None:
        who = f"rank {row['rank']}"
        found["rank"], found["ranks"] = row["rank"], [row["rank"]]
    found["known"], found["confidence"] = True, "medium"
    found["title"] = f"{who} stands where the others don't"
    found["headline"] = f"First fault: {who} stands at {row['frame']}"
    found["why"] = compared["why"]
    found["questions"] = []


def _of_a_hang(found: dict[str, Any], compared: dict[str, Any]) -> None:
    """Add what stacks say to the verdict on a job that hung."""
    ranks = [row["rank"] for row in compared["odd"] if row["rank"] is not None]
    if ranks and not found["ranks"]:
        found["rank"] = ranks[0] if len(ranks) == 1 else None
        found["ranks"] = ranks
        found["title"] = f"stands at {compared['odd'][0]['frame']}"
        found["confidence"] = "medium"
        found["headline"] = headline(found)
    if compared["odd"]:
        found["why"] += f"; {compared['why']}"
    elif compared["differ"]:
        found["confidence"] = "medium"
        found["why"] += (
            f"; {len(compared['rows'])} processes stand in the same call, but"
            f" {compared['differ']}, so their collectives don't match"
        )
