"""What was measured weighs alike, on whichever rank it lies."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

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
    """This rank's part of the mean squared error over all ranks' labels.

    The mean over ranks of what it returns is that error, and so the mean over
    ranks of gradients, which is what DDP takes, is its gradient. It is 0 if
    nobody has a label, and has a graph on every rank.

    Args:
        predicted: float [molecules, tasks]. What it says in a cell that was not
            measured does not count, and has a gradient of 0.
        values: float [molecules, tasks], NaN where nothing was measured.
        weights: float [tasks], alike on all ranks: what each squared error is
            multiplied by. The divisor stays the number of labels.
        count: labels of all ranks, if they were counted before; or they are
            counted here.

    Returns:
        A number, in float32 or wider, whatever dtype predicts.
    """
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
    """For `masked_loss`: weights by which tasks count alike.

    With them the loss of all rows is the mean over tasks of each task's own
    mean squared error.

    Args:
        values: float [molecules, tasks], this rank's rows of the training set.

    Returns:
        Float [tasks], the same on every rank.

    Raises:
        ValueError: a task has no label on any rank. Each rank raises it, and
            the line has the column's number.
    """
    counts = everywhere((~values.isnan()).sum(0))
    if not counts.all():  # on all ranks or on none, so all of them raise
        empty = (counts == 0).nonzero().flatten().tolist()
        raise ValueError(f"no label on any rank in column {empty}")
    weights = counts.sum() / (len(counts) * counts)
    return weights.to(values.dtype)


# --8<-- [end:weights]
class Replica(Protocol):
    """What `replicated` makes; DistributedDataParallel is one."""

    def __call__(self, x: Tensor, used: Sequence[int]) -> Tensor:
        """As the model's. After the backward pass, a parameter's `grad` has
        had the mean over ranks added."""

    def no_sync(self) -> AbstractContextManager[Any]:
        """A forward and a backward pass within it add to this rank's `grad`
        alone; the next ones outside send the sum of all."""


# --8<-- [start:step]
def in_use(values: Tensor) -> list[int]:
    """The tasks that have a label in float [molecules, tasks]."""
    return (~values.isnan()).any(0).nonzero().flatten().tolist()


def replicated(model: nn.Module) -> Replica:
    """The model, so that a rank may leave out what another one uses.

    Args:
        model: `model(x, used)` has predictions [molecules, tasks], and computes
            those heads alone whose task is in `used`. It has a graph even if
            none is. It is the same on every rank, and step by step the ranks
            may use other heads.

    Returns:
        A replica. Where no rank has used a head, its `grad` stays None.
    """
    return DistributedDataParallel(model, find_unused_parameters=True)


def step(
    model: Replica,
    batches: Sequence[tuple[Tensor, Tensor]],
    weights: Tensor | None = None,
) -> float:
    """The backward pass of a step: forward and backward for each micro-batch,
    with the heads that are in use in it.

    Args:
        model: from `replicated`.
        batches: x [molecules, …] and its values, once for each micro-batch;
            as many on every rank, some of them without labels or molecules.
        weights: for `masked_loss`.

    Returns:
        The mean squared error over the labels of all ranks and micro-batches,
        the same on every rank. `grad` has its gradient.
    """
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
