"""Record which samples each step trains on, rank by rank."""

import os
from pathlib import Path

import numpy as np

from ..checkpoint import sync
from ..telemetry import Observer
from .sample_record import MAGIC


# --8<-- [start:record]
class SampleRecord(Observer):
    """`RUN/samples/attempt-K-rank-R.bin`, written from the batches themselves.

    It is on the disk before the checkpoint of the same step is published:
    publishing waits for every rank, and every rank syncs when its
    checkpoint phase begins.
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
