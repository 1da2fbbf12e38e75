"""What was measured weighs alike, on whichever rank it lies."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel


# --8<-- [start:loss]
def everywhere(number: Tensor) -> Tensor:
    """The sum over all ranks, float64; every rank has to call."""
    total = number.double()  # exact up to 2**53; bfloat16 ends at 256
    dist.all_reduce(total)
    return total


def masked_loss(
    predicted: Tensor,
    values: Tensor,
    weights: Tensor | None = None,
    count: Tensor | None = None,
) -> Tensor:
    """This rank's part of the mean squared error over all ranks' labels."""
    measured = ~values.isnan()
    if count is None:
        count = everywhere(measured.sum())  # with labels or without
    wide = torch.promote_types(predicted.dtype, torch.float32)
    own = predicted.to(wide)
    # Filled before the difference: NaN · 0 is NaN, in the gradient as well.
    errors = (own - values.to(wide).where(measured, own.detach())) ** 2
    if weights is not None:
        errors = errors * weights.to(wide)
    share = dist.get_world_size() / count.clamp(min=1)  # DDP divides by ranks
    return errors.sum() * share.to(wide)


# --8<-- [end:loss]
# --8<-- [start:weights]
def task_weights(values: Tensor) -> Tensor:
    """Weights for `masked_loss` by which tasks count alike."""
    counts = everywhere((~values.isnan()).sum(0))
    if not counts.all():  # on all ranks or on none, so all of them raise
        empty = (counts == 0).nonzero().flatten().tolist()
        raise ValueError(f"no label on any rank in column {empty}")
    weights = counts.sum() / (len(counts) * counts)
    return weights.to(values.dtype)


# --8<-- [end:weights]
# --8<-- [start:step]
def in_use(values: Tensor) -> list[int]:
    """The tasks that have a label in float [molecules, tasks]."""
    return (~values.isnan()).any(0).nonzero().flatten().tolist()


def replicated(model: nn.Module) -> DistributedDataParallel:
    """DDP that asks in each step who has used what."""
    return DistributedDataParallel(model, find_unused_parameters=True)


def step(
    model: Any,
    batches: Sequence[tuple[Tensor, Tensor]],
    weights: Tensor | None = None,
) -> float:
    """The backward pass of a step, and its mean squared error."""
    own = sum((~values.isnan()).sum() for _, values in batches)
    count, total = everywhere(torch.as_tensor(own)), torch.zeros(())
    for left, (x, values) in zip(
        range(len(batches))[::-1], batches, strict=True
    ):
        # Forward too: it decides whether DDP's hooks will send.
        with model.no_sync() if left else nullcontext():
            predicted = model(x, in_use(values))
            loss = masked_loss(predicted, values, weights, count)
            loss.backward()
        total = total + loss.detach()
    return float(everywhere(total) / dist.get_world_size())


# --8<-- [end:step]
