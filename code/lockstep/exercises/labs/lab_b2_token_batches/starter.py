"""Lab B2: token-budget batches.

Sample i has `lengths[i]` tokens, a NumPy array of integers, the same on every
rank. A batch is a list of samples, padded to its longest: it costs its number
of samples times the greatest length, and no batch costs more than `budget`. A
step is a list of `parts` batches, which are dealt to the ranks.

No function of the first three communicates, and none touches a global random
generator or `lengths`. What they return depends on their arguments alone.
"""

from collections.abc import Iterator

import numpy as np
from torch import Tensor

Batch = list[int]
Step = list[Batch]


def plan(
    lengths: np.ndarray, budget: int, parts: int, seed: int, epoch: int
) -> list[Step]:
    """The steps of an epoch, the same in every process.

    Each sample is in one batch, no batch is empty, and each step has `parts`
    batches. There are few batches with little padding: at most a tenth of what
    they cost, where lengths allow it. Another epoch has other batches, and long
    samples come throughout the epoch.

    Raises:
        ValueError: a sample is longer than the budget or has no token; or the
            samples do not make whole steps without an empty batch. The message
            is one line; of a sample it has the number.
    """
    raise NotImplementedError  # TODO: how many batches are too few, or too many


def stream(
    lengths: np.ndarray, budget: int, parts: int, seed: int, position: int = 0
) -> Iterator[tuple[Step, int]]:
    """The steps of all epochs, without an end.

    Args:
        position: 0, or what was yielded beside a step, in whichever process:
            then the stream goes on with the step after that one.

    Yields:
        A step, and the position after it: all that a checkpoint has of the
        data. Epoch 1,000 takes no longer to go on from than epoch 1.
    """
    raise NotImplementedError


def share(step: Step, rank: int, world: int) -> Step:
    """A rank's micro-batches: each batch has one rank, and each rank as many.

    Raises:
        ValueError: the ranks do not divide the batches; with both numbers.
    """
    raise NotImplementedError


def token_loss(
    losses: Tensor, batch: Batch, step: Step, lengths: np.ndarray, world: int
) -> Tensor:
    """A micro-batch's part of the mean loss over the step's tokens.

    Of each rank the parts of its micro-batches are summed. The mean over ranks
    of those sums is the mean over all tokens of all ranks, and so DDP's
    gradient, which is a mean over ranks, is that of one process.

    Args:
        losses: float [samples of the batch, longest], a token each. Behind a
            sample's end anything may stand, NaN too; its gradient is 0.
        batch: of `share(step, …)`.
        world: how many ranks there are.
    """
    raise NotImplementedError  # TODO: what can a rank know without asking?
