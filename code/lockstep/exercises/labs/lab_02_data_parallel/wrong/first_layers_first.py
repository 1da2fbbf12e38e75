"""Buckets are in the order of the forward pass."""

from collections import deque

from torch import nn

from lockstep.exercises.labs.lab_02_data_parallel.solution import *
from lockstep.parallel.data_parallel import DataParallel as Sound

FAILS = {"overlap"}


class DataParallel(Sound):
    """The first bucket is full at the very end, and all others wait for it."""

    def __init__(self, module: nn.Module, bucket_mb: float = 25.0) -> None:
        super().__init__(module, bucket_mb)
        self.buckets.reverse()
        self.waiting = deque(self.buckets)
