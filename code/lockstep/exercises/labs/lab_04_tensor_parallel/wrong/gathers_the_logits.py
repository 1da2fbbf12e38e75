"""Every rank makes the logits whole, and then the loss as one rank does."""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.nn.functional import all_gather

from lockstep.exercises.labs.lab_04_tensor_parallel.solution import *
from lockstep.parallel.collectives import Group, place

FAILS = {"cross entropy"}


def vocab_parallel_cross_entropy(
    logits: Tensor, targets: Tensor, group: Group = None
) -> Tensor:
    """Right, for a vocabulary's bytes a token."""
    _, ranks = place(group)
    whole = torch.cat(all_gather(logits), -1)
    loss = F.cross_entropy(whole.movedim(-1, 1), targets, reduction="none")
    # Backward sums n equal gradients.
    return loss.detach() + (loss - loss.detach()) / ranks
