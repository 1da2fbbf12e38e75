"""Each rank takes the mean over its own atoms."""

import torch.distributed as dist
from torch import Tensor

from lockstep.exercises.labs.lab_b4_graph_batches.solution import *

FAILS = {"global mean"}


def atom_mean(errors: Tensor, group: dist.ProcessGroup | None = None) -> Tensor:
    """An atom on a rank with few weighs more."""
    return errors.float().mean() if errors.itemsize < 4 else errors.mean()
