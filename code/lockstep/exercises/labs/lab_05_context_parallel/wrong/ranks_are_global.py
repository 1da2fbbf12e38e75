"""A neighbor's number in the group is taken for its global rank."""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor

from lockstep.exercises.labs.lab_05_context_parallel.parts import sound_but
from lockstep.exercises.labs.lab_05_context_parallel.solution import *
from lockstep.parallel.collectives import Group, place

FAILS = {"global positions"}


def pass_on(block: Tensor, group: Group) -> Callable[[], Tensor]:
    """To a rank that need not be in the group."""
    rank, ranks = place(group)
    arriving = torch.empty_like(block)
    works = (
        dist.isend(block, (rank + 1) % ranks, group),
        dist.irecv(arriving, (rank - 1) % ranks, group),
    )

    def arrived() -> Tensor:
        for work in works:
            if work:
                work.wait()
        return arriving

    return arrived


ring_attention = sound_but(pass_on=pass_on).ring_attention
