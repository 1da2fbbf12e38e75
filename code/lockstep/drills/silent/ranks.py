"""Ranks without a launcher: forked processes that join one group."""

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch.distributed as dist

from lockstep.trainer.process import joined

never_left: list[Any] = []  # a rank ends in its group, which DDP still holds


def on_two_ranks(work: Callable[..., Any], *args: Any) -> list[Any]:
    """What `work(*args)` returned on rank 0 and on rank 1 of one group."""
    with (
        TemporaryDirectory() as folder,
        ProcessPoolExecutor(2, get_context("fork")) as pool,
    ):
        store = str(Path(folder) / "store")
        ranks = [pool.submit(_rank, r, store, work, args) for r in range(2)]
        return [rank.result() for rank in ranks]


def _rank(
    rank: int, store: str, work: Callable[..., Any], args: tuple[Any, ...]
) -> Any:
    here = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2}
    os.environ |= {name: str(value) for name, value in here.items()}
    never_left.append(group := joined(30, dist.FileStore(store, 2)))
    group.__enter__()
    return work(*args)
