"""Logits are exponentiated as they are: inf from 710 on, in float64."""

import torch
from torch import Tensor

from lockstep.exercises.labs.lab_04_tensor_parallel.solution import *
from lockstep.parallel.collectives import Group, place
from lockstep.parallel.tensor_parallel import IGNORED, leave

FAILS = {"cross entropy"}


def vocab_parallel_cross_entropy(
    logits: Tensor, targets: Tensor, group: Group = None
) -> Tensor:
    """Right, for small logits."""
    size = logits.shape[-1]
    own = targets - place(group)[0] * size
    here = (own >= 0) & (own < size)
    chosen = logits.gather(-1, own.where(here, 0)[..., None])[..., 0]
    sums = torch.stack([logits.exp().sum(-1), chosen.where(here, 0)])
    total, target = leave(sums, group, False)
    return (total.log() - target).masked_fill(targets == IGNORED, 0)
