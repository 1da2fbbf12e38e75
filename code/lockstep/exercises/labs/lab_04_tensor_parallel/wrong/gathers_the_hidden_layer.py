"""What lies between the two layers is made whole and cut again."""

import torch
from torch import Tensor
from torch.distributed.nn.functional import all_gather

from lockstep.exercises.labs.lab_04_tensor_parallel.solution import *
from lockstep.exercises.labs.lab_04_tensor_parallel.solution import (
    ParallelMLP as Sound,
)
from lockstep.parallel.collectives import place

FAILS = {"MLP"}


class ParallelMLP(Sound):
    """Right, for more bytes than the block's two all-reduces."""

    def forward(self, x: Tensor) -> Tensor:
        rank, ranks = place(self.up.group)
        whole = torch.cat(all_gather(self.up(x)), -1)
        made = self.activation(whole).chunk(ranks, -1)[rank]
        return self.down(made.contiguous())
