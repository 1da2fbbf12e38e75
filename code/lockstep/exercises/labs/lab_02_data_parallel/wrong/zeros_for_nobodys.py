"""A parameter that no rank used gets zeros."""

import torch

from lockstep.exercises.labs.lab_02_data_parallel.solution import *
from lockstep.parallel.data_parallel import DataParallel as Sound

FAILS = {"unused"}


class DataParallel(Sound):
    """Weight decay and momentum move what nobody trains."""

    def wait_for_gradients(self) -> None:
        """A gradient for everything."""
        super().wait_for_gradients()
        for param in self.bucket:
            if param.grad is None:
                param.grad = torch.zeros_like(param)
