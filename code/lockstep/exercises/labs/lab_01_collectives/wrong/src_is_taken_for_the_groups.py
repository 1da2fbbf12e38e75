"""src is a global rank; here it is used as the group's."""

import torch.distributed as dist
from torch import Tensor

from lockstep.exercises.labs.lab_01_collectives.solution import *
from lockstep.parallel.collectives import Group, place

FAILS = {"groups"}


def tree_broadcast(tensor: Tensor, src: int, group: Group = None) -> None:
    """What another rank has, where numbers differ."""
    rank, ranks = place(group)
    number, have = (rank - src) % ranks, 1
    while have < ranks:
        if number < have and number + have < ranks:
            dist.send(tensor, group=group, group_dst=(rank + have) % ranks)
        elif have <= number < 2 * have:
            dist.recv(tensor, group=group, group_src=(rank - have) % ranks)
        have *= 2
