"""The count has the errors' dtype, which cannot hold it."""

import torch
import torch.distributed as dist
from torch import Tensor

from lockstep.exercises.labs.lab_b4_graph_batches.solution import *

FAILS = {"global mean"}


def atom_mean(errors: Tensor, group: dist.ProcessGroup | None = None) -> Tensor:
    """Of 301 atoms bfloat16 counts 302."""
    count = torch.tensor(len(errors), dtype=errors.dtype)
    dist.all_reduce(count, group=group)
    wide = errors.to(torch.promote_types(errors.dtype, torch.float32))
    return wide.sum() * dist.get_world_size(group) / count.clamp(min=1)
