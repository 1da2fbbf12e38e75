"""A rank without atoms returns a zero that nothing hangs on."""

import torch
import torch.distributed as dist
from torch import Tensor

from lockstep.exercises.labs.lab_b4_graph_batches.solution import *
from lockstep.exercises.labs.lab_b4_graph_batches.solution import (
    atom_mean as sound,
)

FAILS = {"ranks without atoms"}


def atom_mean(errors: Tensor, group: dist.ProcessGroup | None = None) -> Tensor:
    """The loss is right. Backward raises, and the others wait for it."""
    part = sound(errors, group)
    return part if len(errors) else torch.zeros_like(part, requires_grad=False)
