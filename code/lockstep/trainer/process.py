"""This process: its rank, world size, device and process group."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple

import torch
import torch.distributed as dist


class Process(NamedTuple):
    """One process of the job, with one device and one rank."""

    rank: int
    world_size: int
    device: torch.device


_groups: list[Any] = []


@contextmanager
def joined(seconds: float, store: dist.Store | None) -> Iterator[Process]:
    """Join the group that the launcher's variables and `store` describe, or be
    a group of one. A collective that waits longer than `seconds` raises."""
    env = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", **os.environ}
    rank, local_rank = int(env["RANK"]), int(env["LOCAL_RANK"])
    world, cuda = int(env["WORLD_SIZE"]), torch.cuda.is_available()
    device = torch.device("cuda", local_rank) if cuda else torch.device("cpu")
    torch.cuda.set_device(local_rank if cuda else -1)  # -1 changes nothing
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if cuda else "gloo", rank=rank, world_size=world,
        store=store or dist.HashStore(), timeout=timedelta(seconds=seconds))
    # Kept to the end: without the group, DDP's destructor would hold Python's
    # lock while it waits for threads that may be waiting for that lock.
    _groups.append(dist.group.WORLD)
    try:
        yield Process(rank, world, device)
    finally:
        dist.destroy_process_group()


def on_rank0(decide: Callable[[], Any],
             group: dist.ProcessGroup | None = None) -> Any:
    """Call `decide` on rank 0; return its result, or raise, on every rank."""
    box: list[Any] = [None, None]
    if dist.get_rank() == 0:
        try:
            box[0] = decide()
        except Exception as error:
            box[1] = error
    dist.broadcast_object_list(box, group=group, device=torch.device("cpu"))
    if box[1] is not None:
        raise box[1]
    return box[0]
