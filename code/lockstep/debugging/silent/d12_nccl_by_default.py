"""Defect 12: `nccl` is the default backend, so a laptop runs nothing."""

import os
import sys
from dataclasses import dataclass

import torch.distributed as dist


# --8<-- [start:copy]
@dataclass(frozen=True)
class DistConfig:
    """How ranks talk to each other."""

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


# --8<-- [end:copy]
def demonstrate() -> None:
    """Start a group of one process on a machine without a GPU."""
    os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "CUDA_VISIBLE_DEVICES": ""}
    for cfg in DistConfig(), DistConfig("gloo"):
        try:
            _, world = setup_distributed(cfg, dist.HashStore())
        except (RuntimeError, ValueError) as error:
            print(f"{cfg.backend}: refused")
            print(error, file=sys.stderr)  # in other words by other builds
        else:
            print(f"{cfg.backend}: joined, world size {world}")
