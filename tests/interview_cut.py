"""The interview cut as a rank of a test runs it."""

import os
from pathlib import Path
from typing import Any

from lockstep import interview
from tests import ranks

# 4,000 training samples in batches of 64: an epoch ends within step 63.
BATCH, SAMPLES = 64, 4000


def config(world: int, run_dir: Path, **settings: Any) -> interview.TrainConfig:
    """A short run on `world` ranks, two micro-batches to a step."""
    short = {"micro_batch_size": BATCH // world // 2, "max_steps": 40}
    return interview.TrainConfig(run_dir, **short | settings)


def train(cfg: interview.TrainConfig) -> dict[str, Any]:
    """What a rank does with `cfg`; its last event."""
    world = int(os.environ["WORLD_SIZE"])
    rank = int(os.environ["RANK"])
    joined = interview.join(store=ranks.store(), rank=rank, world_size=world)
    return interview.train(cfg, *joined)


def launch(world: int, run_dir: Path, **settings: Any) -> list[dict[str, Any]]:
    """Every rank's last event."""
    return ranks.run_ranks(world, train, config(world, run_dir, **settings))
