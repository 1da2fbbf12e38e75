"""Loading, waiting for others and saving are in no phase of their own."""

from pathlib import Path
from typing import Any

from lockstep.debugging.bugs.rig import launch

SYMPTOM = "Three parts of a step are never timed, so others get their waits."


def prove(trainer: Path, folder: Path) -> None:
    """Compare two lines of the log that have a save between them."""
    asked: dict[str, Any] = {"checkpoint_every_steps": 1, "log_every_steps": 1}
    run = launch(trainer, folder, max_steps=2, **asked)
    timed = run.of("step")[1]["phases"]
    missing = {"load", "sync", "checkpoint"} - timed.keys()
    assert not missing, f"timed: {[*timed]}; never timed: {sorted(missing)}"
