"""Rows first, columns after: the activation sees one rank's part of a sum."""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from lockstep.exercises.labs.lab_04_tensor_parallel.solution import *
from lockstep.parallel.collectives import Group, place
from lockstep.parallel.tensor_parallel import enter, leave

FAILS = {"MLP"}


class ParallelMLP(nn.Module):
    """Right, if the activation were linear."""

    def __init__(
        self,
        up: nn.Linear,
        down: nn.Linear,
        activation: Callable[[Tensor], Tensor] = F.gelu,
        group: Group = None,
        sequence_parallel: bool = False,
    ) -> None:
        super().__init__()
        self.up = RowParallelLinear(up, group)
        self.down, self.activation = down, activation
        self.group, self.sequence_parallel = group, sequence_parallel

    def forward(self, x: Tensor) -> Tensor:
        """The last layer is whole, and so is what it makes of its part."""
        rank, ranks = place(self.group)
        x = enter(x, self.group, self.sequence_parallel)
        mine = x.chunk(ranks, -1)[rank]
        partial = F.linear(mine, self.up.weight, self.up.bias)
        made = self.down(self.activation(partial)) / ranks
        return leave(made, self.group, self.sequence_parallel)
