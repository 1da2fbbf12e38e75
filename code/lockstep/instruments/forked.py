"""Ranks without a launcher: forks of this process, which has loaded torch."""

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.distributed as dist

from lockstep.trainer.process import joined

never_left: list[Any] = []  # a rank ends in its group, which DDP still holds


def on_ranks(world: int, work: Callable[..., Any], *args: Any) -> list[Any]:
    """Return the result of `work(store, *args)` on each of `world` ranks.

    They know themselves by RANK, LOCAL_RANK and WORLD_SIZE, as torchrun's do,
    and can meet in `store`.
    """
    with (
        TemporaryDirectory() as folder,
        ProcessPoolExecutor(world, get_context("fork")) as pool,
    ):
        path = str(Path(folder) / "store")
        ranks = [
            pool.submit(_rank, rank, world, path, work, args)
            for rank in range(world)
        ]
        return [rank.result() for rank in ranks]


def in_a_group(world: int, work: Callable[..., Any], *args: Any) -> list[Any]:
    """Return the result of `work(*args)` on each rank of one group."""
    return on_ranks(world, _join, work, args)


def _rank(
    rank: int,
    world: int,
    path: str,
    work: Callable[..., Any],
    args: tuple[Any, ...],
) -> Any:
    here = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world}
    os.environ |= {name: str(value) for name, value in here.items()}
    torch.set_num_threads(1)
    return work(dist.FileStore(path, world), *args)


def _join(
    store: dist.Store, work: Callable[..., Any], args: tuple[Any, ...]
) -> Any:
    never_left.append(group := joined(30, store))
    group.__enter__()
    return work(*args)
