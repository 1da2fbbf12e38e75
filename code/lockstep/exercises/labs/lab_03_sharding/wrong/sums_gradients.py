"""The sum over ranks takes the place of the mean."""

import torch.distributed as dist
from torch import Tensor, nn

from lockstep.exercises.labs.lab_03_sharding.solution import *
from lockstep.parallel import sharding

FAILS = {"training"}


class ShardedDataParallel(sharding.ShardedDataParallel):
    """With Adam, hardly anybody would notice."""

    def reduce(self, part: nn.Parameter, gradient: Tensor) -> None:
        """As many times too large as there are ranks."""
        super().reduce(part, gradient * dist.get_world_size())
