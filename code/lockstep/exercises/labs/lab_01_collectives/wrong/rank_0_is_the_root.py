"""Whatever src is, rank 0 sends."""

import torch.distributed as dist
from torch import Tensor

from lockstep.exercises.labs.lab_01_collectives.solution import *
from lockstep.parallel.collectives import Group, place

FAILS = {"broadcast"}


def tree_broadcast(tensor: Tensor, src: int, group: Group = None) -> None:
    """What rank 0 has."""
    rank, ranks = place(group)
    have = 1
    while have < ranks:
        if rank < have and rank + have < ranks:
            dist.send(tensor, group=group, group_dst=rank + have)
        elif have <= rank < 2 * have:
            dist.recv(tensor, group=group, group_src=rank - have)
        have *= 2
