"""A rank without atoms returns at once, and the others wait for its count."""

import torch.distributed as dist
from torch import Tensor

from lockstep.exercises.labs.lab_b4_graph_batches.solution import *
from lockstep.exercises.labs.lab_b4_graph_batches.solution import (
    atom_mean as sound,
)

FAILS = {"ranks without atoms"}
SECONDS = 5  # it may hang


def atom_mean(errors: Tensor, group: dist.ProcessGroup | None = None) -> Tensor:
    """It is only a rank in a thousand steps."""
    return sound(errors, group) if len(errors) else errors.sum()
