"""Defect 12: `nccl` is the default backend, so a laptop runs nothing."""

import os
from dataclasses import dataclass

import torch.distributed as dist


@dataclass(frozen=True)
class DistConfig:
    backend: str = "nccl"
    timeout_seconds: int = 600


def setup_distributed(cfg: DistConfig, store: dist.Store) -> tuple[int, int]:
    """Join the group; this process's rank and the world size."""
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(
        cfg.backend, store=store, rank=rank, world_size=world_size
    )
    return rank, world_size
