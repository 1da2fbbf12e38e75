"""Buckets are made of all parameters."""

from torch import nn

from lockstep.exercises.labs.lab_02_data_parallel.solution import *
from lockstep.parallel.data_parallel import DataParallel as Sound

FAILS = {"shared and frozen"}


class DataParallel(Sound):
    """Zeros on the wire, and a bucket that never fills."""

    def __init__(self, module: nn.Module, bucket_mb: float = 25.0) -> None:
        trained = {p: p.requires_grad for p in module.parameters()}
        module.requires_grad_(True)
        super().__init__(module, bucket_mb)
        for param, was in trained.items():
            param.requires_grad_(was)
