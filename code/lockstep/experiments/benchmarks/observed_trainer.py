"""The trainer as it is launched, with one more observer beside its rooms."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import torch.distributed as dist

from lockstep.experiments.benchmarks.settings import (
    ACCUM,
    CLIP_NORM,
    MICRO_BATCH,
)
from lockstep.trainer import __main__ as trainer
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.process import Process
from lockstep.trainer.telemetry import Observer, attach


def config(
    run_dir: Path, hidden_size: int, steps: int, save_every: int, me: Process
) -> TrainConfig:
    """The trainer's defaults, but for accumulation and clipping."""
    return TrainConfig(
        run_dir=run_dir,
        hidden_size=hidden_size,
        micro_batch_size=MICRO_BATCH,
        grad_accum_steps=ACCUM,
        clip_norm=CLIP_NORM,
        max_steps=steps,
        checkpoint_every_steps=save_every,
    ).for_launch(me.world_size, {})


def train(
    cfg: TrainConfig, me: Process, store: dist.Store, watch: Observer
) -> dict[str, Any]:
    """`launch(cfg, store)` in the group that is there; its last event."""

    def watched(*rooms: Observer) -> None:
        attach(*rooms, watch)

    with mock.patch.multiple(
        trainer, joined=lambda *_: nullcontext(me), attach=watched
    ):
        return trainer.launch(cfg, store)
