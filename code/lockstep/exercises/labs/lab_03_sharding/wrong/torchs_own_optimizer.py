"""torch's own ZeRO-1 does the work."""

from typing import Any

from torch.distributed.optim import ZeroRedundancyOptimizer

from lockstep.exercises.labs.lab_03_sharding.solution import *

FAILS = {"collectives alone"}


class ShardedOptimizer(ZeroRedundancyOptimizer):
    """What it does is right, and none of it is built here."""

    def __init__(self, params: Any, optimizer_cls: Any, **kwargs: Any) -> None:
        super().__init__(params, optimizer_cls, **kwargs)
