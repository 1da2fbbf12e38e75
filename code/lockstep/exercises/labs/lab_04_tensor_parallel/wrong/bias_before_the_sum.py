"""Each rank adds the bias to its product, so the sum has it n times."""

import torch.nn.functional as F
from torch import Tensor

from lockstep.exercises.labs.lab_04_tensor_parallel.solution import *
from lockstep.exercises.labs.lab_04_tensor_parallel.solution import (
    RowParallelLinear as Sound,
)
from lockstep.parallel.tensor_parallel import leave

FAILS = {"row layer"}


class RowParallelLinear(Sound):
    """The layer as it is on one rank, and then a sum."""

    def forward(self, x: Tensor) -> Tensor:
        product = F.linear(x, self.weight, self.bias)
        return leave(product, self.group, self.sequence_parallel)
