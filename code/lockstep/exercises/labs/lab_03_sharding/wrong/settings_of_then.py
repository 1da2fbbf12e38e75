"""A group's settings are those that it was made with."""

from typing import Any
from unittest.mock import patch

from lockstep.exercises.labs.lab_03_sharding.solution import *
from lockstep.parallel import sharding

FAILS = {"groups"}


class ShardedOptimizer(sharding.ShardedOptimizer):
    """No scheduler reaches it."""

    def step(self, closure: Any = None) -> Any:
        """With the first learning rate."""
        with patch.object(sharding, "settings", lambda group: {}):
            return super().step(closure)
