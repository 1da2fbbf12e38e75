"""The process ends without a word."""

import os

from torch import Tensor

from lockstep.exercises.labs.lab_03_sharding.solution import *
from lockstep.parallel import sharding

FAILS = {"full parameters"}


class ShardedDataParallel(sharding.ShardedDataParallel):
    """An extension that crashes ends so."""

    def full_parameters(self) -> dict[str, Tensor]:
        """Nothing."""
        os.abort()
