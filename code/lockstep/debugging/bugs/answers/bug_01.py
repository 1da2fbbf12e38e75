"""The counter of consumed samples outlives its epoch."""

from pathlib import Path
from typing import Any

from lockstep.debugging.bugs.rig import launch

SYMPTOM = "The run ends with its first epoch: 2 steps of 3, and no error."


def prove(trainer: Path, folder: Path) -> None:
    """Three steps of half the set: the third belongs to the second epoch."""
    asked: dict[str, Any] = {
        "global_batch_size": 2000,
        "micro_batch_size": 1000,
    }
    run = launch(trainer, folder, max_steps=3, **asked)
    by_step = {step: len(ids) for step, ids in run.samples.items()}
    assert len(by_step) == 3, f"samples trained on, by step: {by_step}"
