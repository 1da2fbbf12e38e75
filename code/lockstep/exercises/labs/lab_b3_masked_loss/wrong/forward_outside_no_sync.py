"""Backward alone is within no_sync, and DDP decides in the forward pass."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from lockstep.exercises.labs.lab_b3_masked_loss.solution import *
from lockstep.exercises.labs.lab_b3_masked_loss.sound import everywhere, in_use

FAILS = {"sent once"}


def step(
    model: Any,
    batches: Sequence[tuple[Tensor, Tensor]],
    weights: Tensor | None = None,
) -> float:
    """Right, for as many all-reduces as there are micro-batches."""
    own = sum(int((~values.isnan()).sum()) for _, values in batches)
    count, total = everywhere(torch.tensor(own)), torch.zeros(())
    for number, (x, values) in enumerate(batches):
        predicted = model(x, in_use(values))
        loss = masked_loss(predicted, values, weights, count)
        last = number + 1 == len(batches)
        with nullcontext() if last else model.no_sync():
            loss.backward()
        total = total + loss.detach()
    return float(everywhere(total) / dist.get_world_size())
