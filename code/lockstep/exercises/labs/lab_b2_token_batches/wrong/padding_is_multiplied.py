"""Masks by a product: NaN times 0 is NaN."""

import numpy as np
import torch
from torch import Tensor

from lockstep.exercises.labs.lab_b2_token_batches.solution import *

FAILS = {"loss"}


def token_loss(
    losses: Tensor,
    batch: list[int],
    step: list[list[int]],
    lengths: np.ndarray,
    world: int,
) -> Tensor:
    """Right, while padding has a number."""
    tokens = sum(int(lengths[one].sum()) for one in step)
    own = torch.as_tensor(lengths[batch])
    real = torch.arange(losses.shape[1]) < own[:, None]
    return (losses * real).sum() * (world / tokens)
