"""Atoms are counted over all ranks, and gradients averaged in a group."""

import torch.distributed as dist
from torch import Tensor

from lockstep.exercises.labs.lab_b4_graph_batches.solution import *
from lockstep.exercises.labs.lab_b4_graph_batches.solution import (
    atom_mean as sound,
)

FAILS = {"groups"}


def atom_mean(errors: Tensor, group: dist.ProcessGroup | None = None) -> Tensor:
    """Right, where there is one group."""
    return sound(errors)
