"""Every rank gets all gradients, and takes its part."""

import torch.distributed as dist
from torch import Tensor, nn

from lockstep.exercises.labs.lab_03_sharding.solution import *
from lockstep.parallel import sharding

FAILS = {"bytes"}


class ShardedDataParallel(sharding.ShardedDataParallel):
    """As DDP does it, for twice the bytes."""

    def reduce(self, part: nn.Parameter, gradient: Tensor) -> None:
        """A part of a mean."""
        gradient = gradient.to(part.dtype)
        dist.all_reduce(gradient)
        mine = sharding.part_of(gradient) / dist.get_world_size()
        part.grad = mine if part.grad is None else part.grad + mine
