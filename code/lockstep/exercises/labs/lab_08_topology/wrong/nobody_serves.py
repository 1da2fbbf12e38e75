"""Both ranks wait for the first message."""

import time
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

from lockstep.exercises.labs.lab_08_topology.solution import *
from lockstep.parallel.collectives import Group, place

FAILS = {"ping-pong"}
SECONDS = 10  # it hangs


def ping_pong(
    sizes: Sequence[int],
    rounds: int,
    group: Group = None,
    device: torch.device | str = "cpu",
    clock: Callable[[], float] = time.perf_counter,
) -> dict[int, list[float]]:
    """Nothing, for ever."""
    rank, _ = place(group)
    for nbytes in sizes if rank < 2 else ():
        ball = torch.ones(nbytes, dtype=torch.uint8, device=device)
        dist.recv(ball, group=group, group_src=1 - rank)
        dist.send(ball, group=group, group_dst=1 - rank)
    dist.barrier(group)
    return {}
