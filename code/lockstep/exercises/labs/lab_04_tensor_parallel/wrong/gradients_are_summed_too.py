"""An all-reduce that sums gradients as well: each rank has them whole already,
so they grow n-fold."""

import torch.nn.functional as F
from torch import Tensor
from torch.distributed.nn.functional import all_reduce

from lockstep.exercises.labs.lab_04_tensor_parallel.solution import *
from lockstep.exercises.labs.lab_04_tensor_parallel.solution import (
    RowParallelLinear as Sound,
)

FAILS = {"row layer"}


class RowParallelLinear(Sound):
    """With what torch has under the name of a differentiable all-reduce."""

    def forward(self, x: Tensor) -> Tensor:
        if self.sequence_parallel:
            return super().forward(x)
        product = F.linear(x, self.weight)
        total = all_reduce(product, group=self.group)
        return total if self.bias is None else total + self.bias
