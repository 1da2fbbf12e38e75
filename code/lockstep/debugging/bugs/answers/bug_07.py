"""The optimizer steps after every micro-batch."""

from pathlib import Path
from types import ModuleType
from typing import Any

from torch.optim.optimizer import register_optimizer_step_post_hook

from lockstep.debugging.bugs.rig import launch

SYMPTOM = "Two micro-batches in a step are two updates, each of half a batch."


def updates(module: ModuleType) -> list[int]:
    """Grows by one for each update."""
    seen: list[int] = []
    register_optimizer_step_post_hook(lambda *_: seen.append(1))
    return seen


def prove(trainer: Path, folder: Path) -> None:
    """One step on one rank, whole and in halves."""
    counts = {}
    for micro in 64, 32:
        where = folder / str(micro)
        asked: dict[str, Any] = {"micro_batch_size": micro, "max_steps": 1}
        run = launch(trainer, where, world=1, watch=updates, **asked)
        counts[micro] = len(run.seen[0])
    assert counts[32] == 1, f"updates in one step, by micro-batch: {counts}"
