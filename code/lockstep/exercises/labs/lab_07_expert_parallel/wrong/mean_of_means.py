"""Every rank's mean weighs the same, however many tokens it has."""

import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from lockstep.exercises.labs.lab_07_expert_parallel.solution import *
from lockstep.parallel.collectives import Group

FAILS = {"auxiliary loss"}


def load_balancing_loss(
    logits: Tensor, experts: Tensor, group: Group = None
) -> Tensor:
    """A mean of means; a rank without tokens counts as one with."""
    n, tokens = logits.shape[-1], max(1, len(logits))
    load = F.one_hot(experts, n).sum((0, 1))
    dist.all_reduce(load, group=group)
    fraction = load.to(logits.dtype) / load.sum()
    probability = logits.softmax(-1).sum(0) / tokens
    return n * (fraction * probability).sum() / dist.get_world_size(group)
