"""Every rank waits in `send` for a receiver."""

import torch.distributed as dist
from torch import Tensor

from lockstep.exercises.labs.lab_01_collectives.solution import *
from lockstep.parallel.collectives import Group, place

FAILS = {"send and recv alone", "all-to-all"}
SECONDS = 10  # it hangs


def all_to_all(
    outputs: list[Tensor], inputs: list[Tensor], group: Group = None
) -> None:
    """Nothing, for ever."""
    rank, ranks = place(group)
    for step in range(1, ranks):
        dist.send(
            inputs[(rank + step) % ranks],
            group=group,
            group_dst=(rank + step) % ranks,
        )
        source = (rank - step) % ranks
        dist.recv(outputs[source], group=group, group_src=source)
    outputs[rank].copy_(inputs[rank])
