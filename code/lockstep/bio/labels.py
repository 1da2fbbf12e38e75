"""Many assays, few labels: a loss over what was measured, and heads for it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .global_mean import part_of_mean


# --8<-- [start:loss]
def masked_loss(
    predicted: Tensor, values: Tensor, weights: Tensor | None = None
) -> Tensor:
    """Return this rank's part of the mean squared error over all ranks' labels.

    Without weights every label counts alike, so an assay counts by its size.
    With `task_weights`, every assay counts alike. Zero on a rank that has no
    label, with a graph behind it: its backward pass still joins the others'.

    Args:
        predicted: float [molecules, tasks]; molecules may be none.
        values: float [molecules, tasks], NaN where nothing was measured.
        weights: float [tasks], alike on all ranks.
    """
    measured = ~values.isnan()
    # Before the difference: a NaN that is multiplied by 0 later is still NaN.
    errors = (predicted - values.where(measured, predicted.detach())) ** 2
    if weights is not None:
        errors = errors * weights
    return part_of_mean(errors.sum(), measured.sum())


def task_weights(values: Tensor) -> Tensor:
    """For `masked_loss`, float [tasks]: what a label of each task weighs, when
    tasks weigh alike. From the whole training set, so no batch changes them.

    Raises:
        ValueError: a task has no label.
    """
    counts = (~values.isnan()).sum(0)
    if not counts.all():
        empty = (counts == 0).nonzero().flatten().tolist()
        raise ValueError(f"no label in column {empty}: leave it out")
    return counts.sum() / (len(counts) * counts.float())


# --8<-- [end:loss]
# --8<-- [start:bounded]
def bounded(predicted: Tensor, values: Tensor, relations: Tensor) -> Tensor:
    """Values for `masked_loss` where some labels are only limits, float
    [molecules, tasks]. For a limit that the prediction keeps it is the
    prediction: no error, no gradient, and counted as a label.

    Args:
        relations: int [molecules, tasks], -1 where the truth is at most the
            value, 1 where it is at least that, 0 where it was measured. They
            turn with the logarithm: IC50 > 10 µM is a pIC50 of at most 5.
    """
    kept = relations * (predicted - values) > 0  # False where there is no label
    return predicted.detach().where(kept, values)


# --8<-- [end:bounded]
# --8<-- [start:heads]
class AssayHeads(nn.Module):
    """One trunk, a head for each assay; only those in use are computed.

    Args:
        features: width of a molecule's input.
        touch: add a zero of every head's weights to the output, so that each
            has a gradient on every rank.
    """

    def __init__(
        self, features: int, hidden: int, tasks: int, touch: bool = False
    ) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(features, hidden), nn.ReLU())
        self.heads = nn.ModuleList(nn.Linear(hidden, 1) for _ in range(tasks))
        self.touch = touch

    def forward(self, x: Tensor, used: Sequence[int]) -> Tensor:
        """Predictions float [molecules, tasks], 0 in columns not in `used`."""
        hidden = self.trunk(x)
        out = hidden.new_zeros(len(x), len(self.heads))
        for task in used:
            out[:, task] = self.heads[task](hidden)[:, 0]
        if self.touch:
            sums = torch.stack([param.sum() for param in self.parameters()])
            out = out + 0 * sums.sum()
        return out


def in_use(values: Tensor) -> list[int]:
    """Return the tasks that have a label among float [molecules, tasks]."""
    return (~values.isnan()).any(0).nonzero().flatten().tolist()


# --8<-- [end:heads]
