"""Each rank balances its own tokens, and never sees the others' counts."""

import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from lockstep.exercises.labs.lab_07_expert_parallel.solution import *
from lockstep.parallel.collectives import Group

FAILS = {"auxiliary loss"}


def load_balancing_loss(
    logits: Tensor, experts: Tensor, group: Group = None
) -> Tensor:
    """A rank's own loss, weighted by its tokens."""
    n, (tokens, k) = logits.shape[-1], experts.shape
    total = logits.new_tensor(tokens)
    dist.all_reduce(total, group=group)
    fraction = F.one_hot(experts, n).sum((0, 1)) / max(1, tokens * k)
    return n * (fraction * logits.softmax(-1).sum(0)).sum() / total
