"""Parameters are rank 0's; a running mean is each rank's own."""

from torch import nn

from lockstep.exercises.labs.lab_02_data_parallel.solution import *
from lockstep.parallel.data_parallel import DataParallel as Sound

FAILS = {"equal start"}


class DataParallel(Sound):
    """Replicas that are not equal in evaluation."""

    def __init__(self, module: nn.Module, bucket_mb: float = 25.0) -> None:
        own = [buffer.clone() for buffer in module.buffers()]
        super().__init__(module, bucket_mb)
        for buffer, value in zip(module.buffers(), own, strict=True):
            buffer.copy_(value)
