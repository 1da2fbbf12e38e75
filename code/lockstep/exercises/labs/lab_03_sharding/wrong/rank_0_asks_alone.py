"""Only the rank that saves asks for the whole."""

import torch.distributed as dist
from torch import Tensor

from lockstep.exercises.labs.lab_03_sharding.solution import *
from lockstep.parallel import sharding

FAILS = {"full parameters"}
SECONDS = 10  # it hangs


class ShardedDataParallel(sharding.ShardedDataParallel):
    """Nobody answers."""

    def full_parameters(self) -> dict[str, Tensor]:
        """Nothing, for ever."""
        found = super().full_parameters() if dist.get_rank() == 0 else {}
        dist.barrier()
        return found
