"""The record of a run: which samples each step trained on, rank by rank."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..checkpoint import sync
from ..telemetry import Observer

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
# --8<-- [start:record]
class SampleRecord(Observer):
    """`RUN/samples/attempt-K-rank-R.bin`, taken from the batches themselves.

    It is on the disk before the checkpoint of the same step is published:
    publishing waits for every rank, and every rank syncs when its phase
    begins.
    """

    phases = ("checkpoint",)

    def __init__(self, run_dir: Path, attempt: int, rank: int) -> None:
        path = run_dir / "samples" / f"attempt-{attempt}-rank-{rank}.bin"
        self.file, self.attempt = path.open("ab"), attempt
        sync(path.parent)

    def committed(self, step: int, position: int, ids: np.ndarray) -> None:
        head = (MAGIC, self.attempt, step, position, len(ids))
        self.file.write(np.array(head).tobytes() + ids.tobytes())

    def begin(self, phase: str) -> None:
        self.file.flush()
        os.fsync(self.file.fileno())

    def event(self, record: dict) -> None:
        if record["event"] in ("run_finished", "run_stopped"):
            self.file.flush()


# --8<-- [end:record]
# --8<-- [start:read_samples]
def read_samples(path: Path) -> Iterator[Trained]:
    """The whole records of one file; a torn last one is left out.

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
