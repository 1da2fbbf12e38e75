"""What holds at a million molecules and not at a billion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Kind = type[np.signedinteger]


# --8<-- [start:ends]
class Reads(NamedTuple):
    """What slices give whose ends are too large for their type."""

    first: int  # molecule that is not what was written; -1: none is
    empty: int
    others: int  # molecules that come back as bytes of another place


def reads(lengths: np.ndarray, kind: Kind) -> Reads:
    """Slice molecules that lie end to end, by ends of type `kind`.

    Args:
        lengths: int [molecules], in bytes.
    """
    true = np.cumsum(lengths, dtype=np.int64)
    ends = np.cumsum(lengths, dtype=kind)  # wraps, and says nothing
    if not (wrong := ends != true).any():
        return Reads(-1, 0, 0)
    # A slice counts what is negative from the back.
    size, begins = true[-1], np.roll(ends, 1).astype(np.int64)
    begins[0] = 0
    begin, end = (
        np.where(x < 0, np.maximum(x + size, 0), x)
        for x in (begins, ends.astype(np.int64))
    )
    empty = wrong & (end <= begin) & (lengths > 0)
    return Reads(
        int(wrong.argmax()), int(empty.sum()), int((wrong & ~empty).sum())
    )


# --8<-- [end:ends]
def private() -> int:
    """Bytes that this process wrote and shares with no other (Linux)."""
    rows = Path("/proc/self/smaps_rollup").read_text().splitlines()
    (kept,) = (row for row in rows if row.startswith("Private_Dirty:"))
    return 1024 * int(kept.split()[1])


# --8<-- [start:fork]
def after_fork(read: Callable[[Any], object], data: Any) -> int:
    """Bytes that a forked worker has made its own by reading `data` once."""
    context = get_context("fork")
    receive, send = context.Pipe(duplex=False)

    def work() -> None:
        before = private()
        read(data)
        send.send(private() - before)

    worker = context.Process(target=work)
    worker.start()
    grown = int(receive.recv())
    worker.join()
    return grown


def each(data: Sequence[str] | np.ndarray) -> None:
    """Read all of it: a list's item is counted by who holds it, in the item,
    so that to look at it is to write to it."""
    for _one in data:
        pass


# --8<-- [end:fork]
def merged(texts: Iterable[str], bits: int) -> int:
    """Molecules that a set of digests of so many bits takes for another."""
    size = bits // 8
    digests = [
        blake2b(one.encode(), digest_size=size).digest() for one in texts
    ]
    return len(digests) - len({*digests})


def expected(molecules: float, bits: int) -> float:
    """Pairs that share a digest by chance."""
    return molecules**2 / 2 / 2.0**bits
