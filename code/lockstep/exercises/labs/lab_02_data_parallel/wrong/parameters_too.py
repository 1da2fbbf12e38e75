"""Rank 0's parameters travel before each step."""

from typing import Any

import torch.distributed as dist

from lockstep.exercises.labs.lab_02_data_parallel.solution import *
from lockstep.parallel.data_parallel import DataParallel as Sound

FAILS = {"bytes"}


class DataParallel(Sound):
    """Bytes for what equal gradients keep equal anyway."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module returns, on what rank 0 has."""
        for param in self.module.parameters():
            dist.broadcast(param.detach(), src=0)
        return super().forward(*args, **kwargs)
