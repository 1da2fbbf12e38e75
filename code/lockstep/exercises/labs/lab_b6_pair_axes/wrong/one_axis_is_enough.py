"""The sum is over the ranks across, and rows stay apart."""

import torch.distributed as dist
from torch import nn

from lockstep.exercises.labs.lab_b6_pair_axes.solution import *

FAILS = {"weights"}


def sum_gradients(module: nn.Module, mesh: Mesh) -> None:
    """Right, for a mesh of one row."""
    for weight in module.parameters():
        if weight.grad is not None:
            dist.all_reduce(weight.grad, group=mesh.across)
