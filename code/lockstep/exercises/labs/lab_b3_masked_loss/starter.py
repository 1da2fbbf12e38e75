"""Lab B3: masked loss.

A row is a molecule and a column a task, which is an assay. `values` is float
[molecules, tasks], NaN where nothing was measured. All ranks of the default
group call each function together, with rows of their own: equally many or not,
maybe none, maybe none with a label. None of them may wait for the others, and
none may bring a NaN.

A number is "right" where it is what one process makes of all ranks' rows.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from torch import Tensor, nn


def in_use(values: Tensor) -> list[int]:
    """The tasks that have a label in float [molecules, tasks]; it is given."""
    return (~values.isnan()).any(0).nonzero().flatten().tolist()


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
    raise NotImplementedError  # TODO: a few bytes, the same calls on each rank


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
    raise NotImplementedError  # TODO: one label on one rank is enough


class Replica(Protocol):
    """What `replicated` makes; DistributedDataParallel is one."""

    def __call__(self, x: Tensor, used: Sequence[int]) -> Tensor:
        """As the model's. After the backward pass, a parameter's `grad` has
        had the mean over ranks added."""

    def no_sync(self) -> AbstractContextManager[Any]:
        """A forward and a backward pass within it add to this rank's `grad`
        alone; the next ones outside send the sum of all."""


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
    raise NotImplementedError


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
    raise NotImplementedError  # TODO: gradients are sent once
