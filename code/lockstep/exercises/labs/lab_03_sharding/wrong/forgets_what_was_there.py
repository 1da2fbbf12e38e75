"""The last backward pass is the only one."""

from lockstep.exercises.labs.lab_03_sharding.solution import *
from lockstep.parallel import sharding

FAILS = {"training"}


class ShardedDataParallel(sharding.ShardedDataParallel):
    """It cannot accumulate."""

    def wait_for_gradients(self) -> None:
        """In place of what there was."""
        if self.under_way:
            _, part, *_ = self.under_way
            part.grad = None
        super().wait_for_gradients()
