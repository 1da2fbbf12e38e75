"""Gradients are added in the dtype that they were computed in."""

import torch.distributed as dist
from torch import Tensor, nn

from lockstep.exercises.labs.lab_03_sharding.solution import *
from lockstep.parallel import sharding

FAILS = {"low precision"}


class ShardedDataParallel(sharding.ShardedDataParallel):
    """256 + 1 is 256."""

    def reduce(self, part: nn.Parameter, gradient: Tensor) -> None:
        """A sum that drops what is small."""
        mine = gradient.new_empty(len(part))
        sharding.reduce_scatter(mine, gradient)
        mine = mine.to(part.dtype) / dist.get_world_size()
        part.grad = mine if part.grad is None else part.grad + mine
