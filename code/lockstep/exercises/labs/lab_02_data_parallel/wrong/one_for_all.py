"""One all-reduce has the least latency, so all wait for it."""

from torch import nn

from lockstep.exercises.labs.lab_02_data_parallel.solution import *
from lockstep.parallel.data_parallel import DataParallel as Sound

FAILS = {"buckets", "overlap"}


class DataParallel(Sound):
    """Nothing left to hide the communication behind."""

    def __init__(self, module: nn.Module, bucket_mb: float = 25.0) -> None:
        super().__init__(module, float("inf"))
