"""Rank 0 logs alone, and the loss of its own share."""

from pathlib import Path
from typing import Any

from lockstep.debugging.bugs.rig import launch

SYMPTOM = "The logged loss is of rank 0's samples; the other rank logs nothing."


def prove(trainer: Path, folder: Path) -> None:
    """Compare the first loss, which comes from equal weights, on one rank and
    on two."""
    asked: dict[str, Any] = {"max_steps": 1, "dropout": 0.0}
    one, two = (
        launch(
            trainer, folder / str(world), world, micro_batch_size=32, **asked
        )
        for world in (1, 2)
    )
    silent = [rank for rank in range(2) if not two.of("step", rank)]
    alone, both = (run.of("step")[0]["loss"] for run in (one, two))
    said = f"on one rank {alone:.4f}, on two {both:.4f}, silent: {silent}"
    assert abs(alone - both) < 1e-4, said
    assert not silent, said
