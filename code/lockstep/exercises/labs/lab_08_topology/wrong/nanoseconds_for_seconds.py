"""The clock counts nanoseconds, and its reader seconds."""

import time
from collections.abc import Callable, Sequence

import torch

from lockstep.exercises.labs.lab_08_topology.solution import *
from lockstep.parallel.collectives import Group
from lockstep.parallel.topology import ping_pong as sound

FAILS = {"measured"}


def ping_pong(
    sizes: Sequence[int],
    rounds: int,
    group: Group = None,
    device: torch.device | str = "cpu",
    clock: Callable[[], float] = time.perf_counter_ns,
) -> dict[int, list[float]]:
    """Right on a clock of seconds."""
    return sound(sizes, rounds, group, device, clock)
