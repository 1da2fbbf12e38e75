"""Defect 5: rank and local rank are part of what the digest is taken of."""

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field


# --8<-- [start:copy]
def from_env(name: str, default: int) -> int:
    """Make a field that torchrun fills in."""
    return field(default_factory=lambda: int(os.environ.get(name, default)))


@dataclass(frozen=True)
class TrainConfig:
    """What a run is, and where this process is in it."""

    learning_rate: float = 3e-4
    micro_batch_size: int = 16
    seed: int = 0
    rank: int = from_env("RANK", 0)
    local_rank: int = from_env("LOCAL_RANK", 0)
    world_size: int = from_env("WORLD_SIZE", 1)

    def digest(self) -> str:
        """Equal for equal settings: restoring compares it."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


# --8<-- [end:copy]
def demonstrate() -> None:
    """Print the digest on each of two ranks."""
    for rank in range(2):
        cfg = TrainConfig(rank=rank, local_rank=rank, world_size=2)
        print(f"rank {rank}: {cfg.digest()[:16]}")
