"""Each batch's mean, as if batches had equally many tokens."""

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
    """A batch of short samples, with more padding, weighs as much."""
    own = torch.as_tensor(lengths[batch])
    real = torch.arange(losses.shape[1]) < own[:, None]
    return losses.where(real, 0).sum() / real.sum() * world / len(step)
