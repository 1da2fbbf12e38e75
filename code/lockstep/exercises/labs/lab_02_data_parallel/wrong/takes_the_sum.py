"""An all-reduce adds, and nobody divides."""

import torch.distributed as dist
from torch import nn

from lockstep.exercises.labs.lab_02_data_parallel.solution import *
from lockstep.parallel.data_parallel import Bucket
from lockstep.parallel.data_parallel import DataParallel as Sound

FAILS = {"mean of gradients"}


class Sum(Bucket):
    """As gloo and NCCL hand it over."""

    def finish(self) -> None:
        """Undo the division."""
        self.work.wait()
        self.flat *= dist.get_world_size()
        super().finish()


class DataParallel(Sound):
    """A learning rate that grows with the ranks."""

    def __init__(self, module: nn.Module, bucket_mb: float = 25.0) -> None:
        super().__init__(module, bucket_mb)
        for bucket in self.buckets:
            bucket.__class__ = Sum
