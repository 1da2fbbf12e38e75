"""Each rank steps its part, and nobody hears of the others'."""

from typing import Any
from unittest.mock import patch

from lockstep.exercises.labs.lab_03_sharding.solution import *
from lockstep.parallel import sharding

FAILS = {"step"}


class ShardedOptimizer(sharding.ShardedOptimizer):
    """Parameters that drift apart."""

    def step(self, closure: Any = None) -> Any:
        """This rank's part."""
        with patch.object(sharding, "all_gather"):
            return super().step(closure)
