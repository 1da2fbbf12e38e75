"""Sequences of unequal length in batches of equal cost.

A step is `parts` batches, planned from lengths, seed and position alone: all
ranks find the same ones and deal them out. No rank has a step more than
another, and a run goes on from one integer, on as many ranks as divide `parts`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lockstep.trainer.order import GlobalOrder

Ids = np.ndarray  # int64 [samples]


# --8<-- [start:cut]
def cut(ids: Ids, lengths: np.ndarray, budget: int) -> list[Ids]:
    """Batches of like length, none over `budget` tokens once padded.

    Args:
        ids: of samples, the longest first.
        lengths: int [all samples], in tokens.
    """
    batches, start = [], 0
    while start < len(ids):
        count = max(1, budget // int(lengths[ids[start]]))
        batches.append(ids[start : start + count])
        start += count
    return batches


def pack(ids: Ids, lengths: np.ndarray, budget: int) -> list[Ids]:
    """Rows of at most `budget` tokens, end to end: each sample goes where it
    leaves least room (best fit, the longest first)."""
    rows: list[list[int]] = []
    left: list[tuple[int, int]] = []  # tokens that a row has room for, the row
    for sample in ids.tolist():
        length = int(lengths[sample])
        at = bisect_left(left, (length, 0))
        if at == len(left):
            left.append((budget, len(rows)))
            rows.append([])
        room, row = left.pop(at)
        rows[row].append(sample)
        insort(left, (room - length, row))
    return [np.array(row) for row in rows]


# --8<-- [end:cut]
def even(batches: list[Ids], parts: int) -> list[Ids]:
    """Make the number of batches a multiple of `parts`: those of most samples
    are halved, so that none is dropped and none repeated.

    Raises:
        ValueError: there are fewer samples than such a multiple.
    """
    batches = list(batches)
    while len(batches) % parts:
        most = max(range(len(batches)), key=lambda i: len(batches[i]))
        whole = batches[most]
        if len(whole) < 2:
            raise ValueError(f"{len(batches)} samples do not make {parts} each")
        half = len(whole) // 2
        batches[most : most + 1] = [whole[:half], whole[half:]]
    return batches


class Step(NamedTuple):
    """One step of all ranks."""

    batches: list[Ids]  # `parts` of them
    resume: int  # the position of the step after it


# --8<-- [start:batches]
class TokenBatches:
    """The endless stream of steps over samples of given lengths.

    Args:
        lengths: int [samples], in tokens; a memory map will do.
        budget: tokens of a batch, with its padding.
        parts: batches of a step, over all ranks.
        window: samples of the global order that are sorted at a time.
        packed: rows end to end, in place of padded batches.

    Raises:
        ValueError: a sample is longer than the budget, or empty, or the window
            does not divide into `parts`.
    """

    def __init__(
        self,
        lengths: np.ndarray,
        budget: int,
        parts: int,
        seed: int,
        window: int = 4096,
        packed: bool = False,
    ) -> None:
        longest = int(np.argmax(lengths))
        if lengths[longest] > budget:
            raise ValueError(
                f"sample {longest} has {lengths[longest]} tokens, a batch"
                f" {budget}: crop it or leave it out"
            )
        if np.min(lengths) < 1:
            raise ValueError(f"sample {int(np.argmin(lengths))} has no tokens")
        if window < 1 or window % parts:
            raise ValueError(f"{window=} has to be a multiple of {parts=}")
        self.lengths, self.budget, self.parts = lengths, budget, parts
        self.window, self.seed, self.packed = window, seed, packed
        self.order = GlobalOrder(len(lengths), seed)

    def plan(self, number: int) -> list[list[Ids]]:
        """Plan the steps of a window, which any process can compute alone."""
        first = number * self.window
        ids = self.order(np.arange(first, first + self.window))
        ids = ids[
            np.argsort(-self.lengths[ids].astype(np.int64), kind="stable")
        ]
        make = pack if self.packed else cut
        batches = even(make(ids, self.lengths, self.budget), self.parts)
        # Long and short ones come mixed, and not from long to short.
        mixed = GlobalOrder(len(batches), self.seed).permute(
            np.arange(len(batches)), number
        )
        dealt = mixed.reshape(-1, self.parts)
        return [[batches[i] for i in step] for step in dealt]

    def steps(self, position: int = 0) -> Iterator[Step]:
        """From `position` on, without an end. A position is the window's first
        sample plus the steps made in it, of which there are never more."""
        while True:
            number, made = divmod(position, self.window)
            found = self.plan(number)
            for at in range(made, len(found)):
                last = at + 1 == len(found)
                after = (number + 1) * self.window if last else position + 1
                yield Step(found[at], position := after)


def share(step: Step, rank: int, world: int) -> list[Ids]:
    """Return this rank's micro-batches of a step: as many as every other
    rank's.

    Raises:
        ValueError: the ranks do not divide the step.
    """
    if len(step.batches) % world:
        raise ValueError(
            f"{world} ranks do not divide {len(step.batches)} parts"
        )
    return step.batches[rank::world]


# --8<-- [end:batches]
# --8<-- [start:collate]
class Padded(NamedTuple):
    """Sequences side by side."""

    tokens: Tensor  # int64 [sequences, longest], 0 where there is none
    real: Tensor  # bool [sequences, longest]


class Packed(NamedTuple):
    """Sequences end to end, in one row."""

    tokens: Tensor  # int64 [budget], 0 behind the last one
    positions: Tensor  # int64 [budget], from 0 in each sequence
    owners: Tensor  # int64 [budget], whose token it is; -1: nobody's


def pad(sequences: Sequence[Tensor]) -> Padded:
    """Each int64 [its length]."""
    side = torch.nn.utils.rnn.pad_sequence(list(sequences), batch_first=True)
    lengths = torch.tensor([len(one) for one in sequences])
    return Padded(side, torch.arange(side.shape[1]) < lengths[:, None])


def lay(sequences: Sequence[Tensor], budget: int) -> Packed:
    """Each int64 [its length].

    Raises:
        ValueError: they are longer than the budget.
    """
    lengths = torch.tensor([len(one) for one in sequences])
    if (rest := budget - int(lengths.sum())) < 0:
        raise ValueError(f"{budget - rest} tokens do not fit into {budget}")
    none = torch.zeros(rest, dtype=torch.int64)
    return Packed(
        torch.cat([*sequences, none]),
        torch.cat([*(torch.arange(len(one)) for one in sequences), none]),
        torch.cat(
            [torch.arange(len(lengths)).repeat_interleave(lengths), none - 1]
        ),
    )


def attends(owners: Tensor) -> Tensor:
    """Which token may see which, bool [tokens, tokens]: those of its own
    sequence. Padding sees padding, since a row of nothing is NaN in softmax."""
    return owners[:, None] == owners[None, :]


# --8<-- [end:collate]
def padding(batches: Sequence[Ids], lengths: np.ndarray, row: int = 0) -> float:
    """Return the share of positions that hold no token, where a batch is as
    wide as its longest sequence, or is a `row` of so many positions."""
    held = sum(int(lengths[one].sum()) for one in batches)
    wide = sum(row or len(one) * int(lengths[one].max()) for one in batches)
    return 1 - held / wide
