"""Every rank measures, and keeps what it found."""

import time
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

from lockstep.exercises.labs.lab_08_topology.solution import *
from lockstep.parallel.collectives import Group, place

FAILS = {"ping-pong"}


def ping_pong(
    sizes: Sequence[int],
    rounds: int,
    group: Group = None,
    device: torch.device | str = "cpu",
    clock: Callable[[], float] = time.perf_counter,
) -> dict[int, list[float]]:
    """Two links, of which one may make a rank choose a ring, one a tree."""
    rank, _ = place(group)
    times: dict[int, list[float]] = {nbytes: [] for nbytes in sizes}
    for nbytes in list(sizes) * rounds:
        ball = torch.ones(nbytes, dtype=torch.uint8, device=device)
        began = clock()
        if rank == 0:
            dist.send(ball, group=group, group_dst=1)
            dist.recv(ball, group=group, group_src=1)
        elif rank == 1:
            dist.recv(ball, group=group, group_src=0)
            dist.send(ball, group=group, group_dst=0)
        times[nbytes].append((clock() - began) / 2)
    return times
