"""Each gradient sets out as soon as it is there, alone."""

from torch import nn

from lockstep.exercises.labs.lab_02_data_parallel.solution import *
from lockstep.parallel.data_parallel import DataParallel as Sound

FAILS = {"buckets"}


class DataParallel(Sound):
    """A latency for every bias."""

    def __init__(self, module: nn.Module, bucket_mb: float = 25.0) -> None:
        super().__init__(module, 0)
