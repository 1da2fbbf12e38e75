"""The position moves when an index is drawn, and workers draw ahead."""

from pathlib import Path
from typing import Any

from lockstep.debugging.bugs.rig import launch

SYMPTOM = (
    "With loader workers the recorded position is ahead of the steps done."
)


def prove(trainer: Path, folder: Path) -> None:
    """No resume is needed: the checkpoint is wrong when it is written."""
    said = []
    for workers in 0, 2:
        asked: dict[str, Any] = {
            "max_steps": 40,
            "stop_at_step": 5,
            "num_workers": workers,
        }
        run = launch(trainer, folder / str(workers), **asked)
        said.append(run.of("run_finished")[0]["position"])
    trained = len(run.ids)
    assert said[1] == trained, (
        f"{trained} samples trained on; the position without workers is"
        f" {said[0]}, with two {said[1]}"
    )
