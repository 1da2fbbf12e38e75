"""Defect 9: all ranks are seeded alike; and once that is fixed, rank 0's RNG
alone is saved, and every rank resumes with it."""

import hashlib
import random
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from lockstep.instruments.forked import in_a_group


# --8<-- [start:copy]
def seed_everything(seed: int) -> None:
    """Seed all generators. Every rank calls this first, with the run's seed."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def save_rng(path: Path) -> None:
    """Part of the checkpoint, which rank 0 writes."""
    if dist.get_rank() == 0:
        torch.save(torch.get_rng_state(), path)
    dist.barrier()


def load_rng(path: Path) -> None:
    """Go on drawing where `save_rng` was called."""
    torch.set_rng_state(torch.load(path, map_location="cpu"))


# --8<-- [end:copy]
def run(path: Path, by_rank: bool) -> list[Tensor]:
    """Return dropout's output for ones: eight draws, and after a restore the
    last four again. `by_rank` fixes the seed."""
    dropout, ones = nn.Dropout(0.1), torch.ones(32, 48)
    seed_everything(dist.get_rank() if by_rank else 0)
    drawn = [dropout(ones) for _ in range(4)]
    save_rng(path)
    drawn += [dropout(ones) for _ in range(4)]
    load_rng(path)
    return drawn + [dropout(ones) for _ in range(4)]


def digest(mask: Tensor) -> str:
    """Tells masks apart."""
    return hashlib.sha256((mask != 0).numpy().tobytes()).hexdigest()[:12]


def demonstrate() -> None:
    """Print the fifth dropout mask of two ranks: with equal seeds, with that
    fixed, and drawn once more after a restore."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rng.pt"
        alike = in_a_group(2, run, path, False)
        mended = in_a_group(2, run, path, True)
    for what, masks, at in [
        ("seeded alike", alike, 4),
        ("seeded by rank", mended, 4),
        ("restored", mended, 8),
    ]:
        a, b = (digest(rank[at]) for rank in masks)
        print(f"{what:>14}: rank 0 draws {a}, rank 1 draws {b}")
