"""What a checkpoint costs: wall and CPU time, and how large it is."""

import time
from pathlib import Path
from typing import Any

import torch.distributed as dist

from lockstep.experiments.benchmarks.observed_trainer import config, train
from lockstep.trainer.process import Process
from lockstep.trainer.telemetry import Observer

Save = dict[str, float]  # seconds of wall and of CPU time, bytes


class Saves(Observer):
    """Times every checkpoint on this rank."""

    phases = ("checkpoint",)

    def __init__(self) -> None:
        self.all: list[Save] = []

    def begin(self, phase: str) -> None:
        if phase == "checkpoint":
            self.begun = time.perf_counter(), time.process_time()

    def end(self, phase: str) -> None:
        if phase == "checkpoint":
            wall, cpu = self.begun
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            self.all.append({"wall": wall, "cpu": cpu, "bytes": self.bytes})

    def event(self, record: dict[str, Any]) -> None:
        if record["event"] == "checkpoint_saved":
            self.bytes = float(record["bytes"])


def saving(
    run_dir: Path,
    hidden_size: int,
    times: int,
    me: Process,
    store: dist.Store,
) -> list[Save]:
    """`times` checkpoints of one run, after one that is not counted."""
    saves = Saves()
    cfg = config(run_dir, hidden_size, times + 1, 1, me)
    train(cfg, me, store, saves)
    return saves.all[1:]
