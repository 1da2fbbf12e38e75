"""Plant faults, confirm which of them matter, and examine those."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from lockstep.exam.adapter import Adapter, load
from lockstep.experiments.provenance import revision

from .forked import starter
from .planted import EXAMPLES, LOOPS, Planted, planted
from .trials import Trial, end, matters

Record = dict[str, Any]


def adapter_of(loop: str, sources: dict[str, str]) -> Adapter:
    """Return the adapter of a loop that runs from these changed sources."""
    return replace(load(f"{EXAMPLES}{loop}_exam"), start=starter(sources))


def known(file: Path) -> dict[str, Record]:
    """Return what earlier parts of a campaign recorded, the newest for each
    fault; a line that was cut short is left out."""
    found: dict[str, Record] = {}
    if file.exists():
        for line in file.read_text("utf-8").splitlines():
            try:
                one = json.loads(line)
            except ValueError:
                continue
            found[one["name"]] = found.get(one["name"], {}) | one
    return found


def note(file: Path, record: Record) -> None:
    """Append a record; it is on the disk when this returns."""
    with file.open("a") as out:
        out.write(json.dumps(record) + "\n")
        out.flush()
        os.fsync(out.fileno())


def names(faults: list[Planted]) -> Iterator[tuple[str, Planted]]:
    """Yield each fault with its name."""
    counts: Counter[str] = Counter()
    for one in faults:
        counts[one.loop] += 1
        yield f"{one.loop}-{counts[one.loop]:03d}", one


def confirm(
    file: Path, folder: Path, count: int, seed: int, part: tuple[int, int]
) -> Iterator[Record]:
    """Record of each fault that is not in `file` whether it matters.

    Args:
        file: JSON lines, one for each fault.
        folder: where trainers run; cleared.
        count: how many faults to plant.
        seed: of the draw.
        part: `(k, n)`: every n-th fault from the k-th on.
    """
    done = known(file)
    sound = {
        loop: end(adapter_of(loop, {}), folder, Trial("", ())).ids
        for loop in LOOPS
    }
    for name, one in [*names(planted(count, seed))][part[0] :: part[1]]:
        if name in done:
            continue
        adapter = adapter_of(one.loop, one.sources)
        shown = matters(adapter, folder, sound[one.loop])
        record = {
            "name": name, "loop": one.loop, "module": one.module,
            "operator": one.edit.operator, "diff": one.diff, "shows": shown,
            "revision": revision(Path(__file__).parent),
        }  # fmt: skip
        note(file, record)
        yield record
