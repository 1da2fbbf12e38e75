"""Batches by tokens: one plan, computed everywhere, dealt to the ranks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

Batch = list[int]
Step = list[Batch]


# --8<-- [start:cut]
def check(lengths: np.ndarray, budget: int) -> None:
    """ValueError, with the sample that fits into no batch."""
    for wrong, why in (
        (lengths > budget, f"more than a batch's {budget}"),
        (lengths < 1, "none"),
    ):
        if wrong.any():
            one = int(np.flatnonzero(wrong)[0])
            raise ValueError(f"sample {one} has {lengths[one]} tokens, {why}")


def cut(ids: list[int], lengths: np.ndarray, budget: int) -> list[Batch]:
    """Batches of neighbors in `ids`, each as long as the budget lets it be."""
    batches: list[Batch] = []
    longest = 0
    for one in ids:
        longest = max(longest, int(lengths[one]))  # a batch's, padded to it
        if batches and longest * (len(batches[-1]) + 1) <= budget:
            batches[-1].append(one)
        else:
            batches.append([one])
            longest = int(lengths[one])
    return batches


def even(batches: list[Batch], parts: int) -> list[Batch]:
    """A multiple of `parts`: the largest are halved, so none is over budget,
    none is dropped and none comes twice."""
    while len(batches) % parts:
        most = max(batches, key=len)
        if len(most) < 2:
            raise ValueError(
                f"{sum(map(len, batches))} samples do not make steps of"
                f" {parts} batches"
            )
        half = len(most) // 2
        batches.remove(most)
        batches += [most[:half], most[half:]]
    return batches


# --8<-- [end:cut]
# --8<-- [start:plan]
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
    check(lengths, budget)
    rng = np.random.default_rng([seed, epoch])  # nobody else's generator
    # Nearly by length: neighbors are alike, and others in each epoch.
    near = lengths * rng.uniform(0.9, 1, len(lengths))
    batches = even(cut(np.argsort(-near).tolist(), lengths, budget), parts)
    mixed = [batches[i] for i in rng.permutation(len(batches))]
    return [mixed[i : i + parts] for i in range(0, len(mixed), parts)]


# --8<-- [end:plan]
# --8<-- [start:stream]
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
    # An epoch has fewer steps than samples, so one number holds both.
    epoch, done = divmod(position, len(lengths) + 1)
    while True:
        steps = plan(lengths, budget, parts, seed, epoch)
        for made, step in enumerate(steps[done:], done + 1):
            last = made == len(steps)
            here = (epoch + 1, 0) if last else (epoch, made)
            yield step, here[0] * (len(lengths) + 1) + here[1]
        epoch, done = epoch + 1, 0


def share(step: Step, rank: int, world: int) -> Step:
    """A rank's micro-batches: each batch has one rank, and each rank as many.

    Raises:
        ValueError: the ranks do not divide the batches; with both numbers.
    """
    if len(step) % world:
        raise ValueError(f"{world} ranks do not divide {len(step)} batches")
    return step[rank::world]


# --8<-- [end:stream]
# --8<-- [start:loss]
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
    tokens = sum(int(lengths[one].sum()) for one in step)  # of all ranks
    own = torch.as_tensor(lengths[batch])
    real = torch.arange(losses.shape[1]) < own[:, None]
    return losses.where(real, 0).sum() * (world / tokens)


# --8<-- [end:loss]
