"""Adds 0 times every parameter, so every head has a gradient, of zeros."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from lockstep.exercises.labs.lab_b3_masked_loss.solution import *

FAILS = {"idle heads"}


class Touched(nn.Module):
    """The model, and a zero."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, used: Sequence[int]) -> Tensor:
        """AdamW decays a head that nobody asked."""
        zero = 0 * torch.stack([p.sum() for p in self.parameters()]).sum()
        return self.model(x, used) + zero


def replicated(model: nn.Module) -> DistributedDataParallel:
    """Right, with SGD."""
    return DistributedDataParallel(Touched(model))
