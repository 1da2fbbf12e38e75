"""Parameters are gathered in 32 bits, then rounded."""

from typing import Any
from unittest.mock import patch

from torch import Tensor

from lockstep.exercises.labs.lab_03_sharding.solution import *
from lockstep.parallel import sharding

FAILS = {"low precision"}
gather = sharding.all_gather


def wide(into: Tensor, mine: Tensor) -> None:
    """Twice the bytes."""
    whole = into.float()
    gather(whole, mine.float())
    into.copy_(whole)


class ShardedDataParallel(sharding.ShardedDataParallel):
    """It computes the same."""

    def forward(self, *args: Any) -> Any:
        """With what has been rounded late."""
        with patch.object(sharding, "all_gather", wide):
            return super().forward(*args)
