"""Time that no phase has: rank 0 reports each step to a collector."""

from pathlib import Path
from typing import Any

import torch.distributed as dist

from lockstep.experiments.slow_jobs.measuring import (
    Phases,
    average,
    by_rank,
    leads,
    table,
    train,
)
from lockstep.instruments.slow_trainers import Store
from lockstep.trainer.telemetry import Observer

RANKS = 2
STEPS, LOGGED = 20, 5
SECONDS = 0.05  # that the collector takes


# --8<-- [start:report]
class Reporter(Observer):
    """Sends a line after each step, and waits for the answer."""

    def __init__(self, rank: int, every: int) -> None:
        self.store, self.rank, self.every = Store(SECONDS), rank, every
        self.lines: list[str] = []

    def committed(self, step: int, position: int, ids: Any) -> None:
        self.lines.append(f"{step} {position}")
        if self.rank == 0 and step % self.every == 0:
            self.store.put(f"step-{step}", "\n".join(self.lines).encode())
            self.lines.clear()


# --8<-- [end:report]
EVERY = {"slow": 1, "mended": 10}


def measured(folder: str) -> dict[str, Phases]:
    """On a rank: phases."""
    found = {}
    for name, every in EVERY.items():
        room = Reporter(dist.get_rank(), every)
        steps = train(
            Path(folder, name), room, max_steps=STEPS, log_every_steps=LOGGED
        )
        found[name] = average(steps.values())
    return found


def told(ranks: list[dict[str, Phases]]) -> list[str]:
    """The table, and what leads."""
    rows = by_rank(ranks)
    led = (f"{leads(rows[n])} in {n}" for n in ("slow r0", "slow r1"))
    return [*table(rows, "checkpoint"), "leads: " + ", ".join(led)]
