"""The sum is divided by all atoms, and the average over ranks divides again."""

import torch.distributed as dist
from torch import Tensor

from lockstep.exercises.labs.lab_b4_graph_batches.solution import *
from lockstep.exercises.labs.lab_b4_graph_batches.solution import (
    atom_mean as sound,
)

FAILS = {"global mean"}


def atom_mean(errors: Tensor, group: dist.ProcessGroup | None = None) -> Tensor:
    """As many times too small as there are ranks: a smaller learning rate."""
    return sound(errors, group) / dist.get_world_size(group)
