"""The whole parameters stay beside the parts."""

import torch
from torch import nn

from lockstep.exercises.labs.lab_03_sharding.solution import *
from lockstep.parallel import sharding

FAILS = {"memory"}


class ShardedDataParallel(sharding.ShardedDataParallel):
    """A copy for bad days."""

    def __init__(
        self, module: nn.Module, low_precision: torch.dtype | None = None
    ) -> None:
        copies = [param.detach().clone() for param in module.parameters()]
        super().__init__(module, low_precision)
        self.copies = copies
