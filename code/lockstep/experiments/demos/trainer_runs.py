"""Runs of the trainer, on ranks that this process forks."""

from pathlib import Path
from typing import Any

# An optimizer's first step imports it: here once for all ranks.
import torch._dynamo  # noqa: F401
import torch.distributed as dist

from lockstep.instruments.forked import on_ranks
from lockstep.trainer.__main__ import launch
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.extensions.events import read_events
from lockstep.trainer.extensions.options import Options


def trained(
    world: int, run_dir: Path, options: Options, **settings: Any
) -> list[dict[str, Any]]:
    """Rank 0's events of a run on `world` ranks."""
    on_ranks(world, _train, {"run_dir": run_dir} | settings, options)
    return [*read_events(run_dir / "events" / "attempt-0-rank-0.jsonl")]


def _train(
    store: dist.Store, settings: dict[str, Any], options: Options
) -> None:
    launch(TrainConfig(**settings), store, options)
