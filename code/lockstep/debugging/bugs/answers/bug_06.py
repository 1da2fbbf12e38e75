"""Shares are made even: in an epoch, and in evaluation."""

from collections import Counter
from pathlib import Path
from typing import Any

from lockstep.debugging.bugs.rig import launch

SYMPTOM = (
    "Some samples come twice in an epoch, and count twice in the accuracy."
)


def prove(trainer: Path, folder: Path) -> None:
    """Batches of 2,400 from 4,000: five steps are three epochs, not 2.5."""
    asked: dict[str, Any] = {
        "global_batch_size": 2400,
        "micro_batch_size": 1200,
    }
    run = launch(trainer, folder, max_steps=5, **asked)
    times = Counter(Counter(run.ids).values())
    assert times == {3: 4000}, f"times seen in three epochs, samples: {times}"
