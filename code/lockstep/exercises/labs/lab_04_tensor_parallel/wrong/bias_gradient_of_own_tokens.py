"""With sequence parallelism a rank adds the bias to its own tokens, and keeps
the gradient of those: ranks' biases drift apart."""

import torch.nn.functional as F
from torch import Tensor

from lockstep.exercises.labs.lab_04_tensor_parallel.solution import *
from lockstep.exercises.labs.lab_04_tensor_parallel.solution import (
    RowParallelLinear as Sound,
)
from lockstep.parallel.tensor_parallel import leave

FAILS = {"sequence parallel"}


class RowParallelLinear(Sound):
    """The same output, and a gradient of 1/n of the tokens."""

    def forward(self, x: Tensor) -> Tensor:
        product = F.linear(x, self.weight)
        total = leave(product, self.group, self.sequence_parallel)
        return total if self.bias is None else total + self.bias
