"""The input's gradient is left as one rank has it: of its outputs alone."""

import torch.nn.functional as F
from torch import Tensor

from lockstep.exercises.labs.lab_04_tensor_parallel.solution import *
from lockstep.exercises.labs.lab_04_tensor_parallel.solution import (
    ColumnParallelLinear as Sound,
)

FAILS = {"column layer"}


class ColumnParallelLinear(Sound):
    """No rank hears what the others have used x for."""

    def forward(self, x: Tensor) -> Tensor:
        if self.sequence_parallel:
            return super().forward(x)
        return F.linear(x, self.weight, self.bias)
