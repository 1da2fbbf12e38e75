"""The sum that ends backward is over all ranks, whatever the group: other
replicas' gradients come in."""

from torch import Tensor

from lockstep.exercises.labs.lab_04_tensor_parallel.solution import *
from lockstep.exercises.labs.lab_04_tensor_parallel.solution import (
    ColumnParallelLinear as Sound,
)
from lockstep.parallel.tensor_parallel import enter

FAILS = {"groups"}


class ColumnParallelLinear(Sound):
    """Right, where there is one group."""

    def forward(self, x: Tensor) -> Tensor:
        if self.sequence_parallel:
            return super().forward(x)
        return self.product(enter(x, None, False))
