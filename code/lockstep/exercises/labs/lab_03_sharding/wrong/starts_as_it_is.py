"""Each rank cuts its part out of its own parameters."""

from typing import Any
from unittest.mock import patch

import torch.distributed as dist

from lockstep.exercises.labs.lab_03_sharding.solution import *
from lockstep.parallel import sharding

FAILS = {"training", "full parameters"}


class ShardedDataParallel(sharding.ShardedDataParallel):
    """A model that nobody drew."""

    def __init__(self, *args: Any, **given: Any) -> None:
        with patch.object(dist, "broadcast"):
            super().__init__(*args, **given)
