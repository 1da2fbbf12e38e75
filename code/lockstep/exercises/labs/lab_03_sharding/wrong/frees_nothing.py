"""What was gathered for forward is kept for backward."""

from typing import Any
from unittest.mock import patch

from lockstep.exercises.labs.lab_03_sharding.solution import *
from lockstep.parallel import sharding

FAILS = {"memory"}


class ShardedDataParallel(sharding.ShardedDataParallel):
    """It spares a gather, and has the whole model at once."""

    def forward(self, *args: Any) -> Any:
        """All that was gathered stays."""
        with patch.object(sharding, "free", lambda *_: None):
            return super().forward(*args)
