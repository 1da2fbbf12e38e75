"""A weight with two names is in two buckets."""

from collections import deque

from torch import nn

from lockstep.exercises.labs.lab_02_data_parallel.solution import *
from lockstep.parallel.data_parallel import MIB, fill
from lockstep.parallel.data_parallel import DataParallel as Sound

FAILS = {"shared and frozen"}


class DataParallel(Sound):
    """Bytes for a gradient that has travelled already."""

    def __init__(self, module: nn.Module, bucket_mb: float = 25.0) -> None:
        super().__init__(module, bucket_mb)
        named = module.named_parameters(remove_duplicate=False)
        trained = [param for _, param in named if param.requires_grad]
        self.buckets = fill(reversed(trained), bucket_mb * MIB)
        self.bucket = {p: b for b in self.buckets for p in b.params}
        self.waiting = deque(self.buckets)
