"""The record of a run, as a file: which samples each step trained on."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

# --8<-- [start:format]
MAGIC = 0x4C4F434B53544550  # "LOCKSTEP": where a record starts
HEADER = 5  # int64 words: magic, attempt, step, position, samples


class Trained(NamedTuple):
    """One rank's share of one step: `ids` (m,) int64, in order."""

    attempt: int
    step: int
    position: int
    ids: np.ndarray


# --8<-- [end:format]
# --8<-- [start:read_samples]
def read_samples(path: Path) -> Iterator[Trained]:
    """Return the whole records of one file, without a torn last record.

    Raises ValueError where a record should start and none does.
    """
    raw = path.read_bytes()
    words = np.frombuffer(raw[: len(raw) // 8 * 8], np.int64)
    at = 0
    while at + HEADER <= len(words):
        magic, attempt, step, position, count = words[at : at + HEADER].tolist()
        if magic != MAGIC or count < 0:
            raise ValueError(f"{path}: no record at byte {at * 8}")
        at += HEADER
        if at + count > len(words):
            return
        yield Trained(attempt, step, position, words[at : at + count])
        at += count


# --8<-- [end:read_samples]
