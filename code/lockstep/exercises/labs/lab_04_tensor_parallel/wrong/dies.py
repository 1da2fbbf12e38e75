"""The process ends without a word."""

import os

from torch import Tensor

from lockstep.exercises.labs.lab_04_tensor_parallel.solution import *
from lockstep.exercises.labs.lab_04_tensor_parallel.solution import (
    ParallelAttention as Sound,
)

FAILS = {"attention"}


class ParallelAttention(Sound):
    """Nothing: an extension that crashes ends so."""

    def forward(self, x: Tensor) -> Tensor:
        os.abort()
