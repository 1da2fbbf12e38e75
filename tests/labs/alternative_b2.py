"""Lab B2 once more, in another style: windows of a shuffled order, lists and
bisection; batches are evened out by taking single samples from the fullest."""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

WINDOW = 300  # samples that are sorted together


def plan(
    lengths: np.ndarray, budget: int, parts: int, seed: int, epoch: int
) -> list[Any]:
    size = [int(one) for one in lengths]
    for i, one in enumerate(size):
        if not 0 < one <= budget:
            raise ValueError(f"sample {i}: {one} tokens, of 1 to {budget}")
    draw = random.Random(f"{seed} {epoch}")
    order = list(range(len(size)))
    draw.shuffle(order)
    made: list[list[int]] = []
    for start in range(0, len(order), WINDOW):
        row = sorted(order[start : start + WINDOW], key=size.__getitem__)
        while row:
            count = max(1, budget // size[row[-1]])
            made.append(row[-count:])
            del row[-count:]
    missing = -len(made) % parts
    for _ in range(missing):
        fullest = max(made, key=len)
        if len(fullest) == 1:
            raise ValueError(f"{len(size)} samples, steps of {parts} batches")
        made.append([fullest.pop()])
    draw.shuffle(made)
    return [made[i : i + parts] for i in range(0, len(made), parts)]


class Stream:
    def __init__(self, position: int, *given: Any) -> None:
        self.given = given
        self.epoch, self.made = position >> 32, position & (2**32 - 1)
        self.steps = plan(*given, self.epoch)

    def __iter__(self) -> "Stream":
        return self

    def __next__(self) -> tuple[Any, int]:
        if self.made == len(self.steps):
            self.epoch, self.made = self.epoch + 1, 0
            self.steps = plan(*self.given, self.epoch)
        step = self.steps[self.made]
        self.made += 1
        return step, (self.epoch << 32) + self.made


def stream(
    lengths: np.ndarray, budget: int, parts: int, seed: int, position: int = 0
) -> Iterator[Any]:
    return Stream(position, lengths, budget, parts, seed)


def share(step: list[Any], rank: int, world: int) -> list[Any]:
    each, rest = divmod(len(step), world)
    if rest:
        raise ValueError(f"{len(step)} batches, {world} ranks")
    return step[rank * each : (rank + 1) * each]


def token_loss(
    losses: Tensor, batch: list[int], step: Any, lengths: Any, world: int
) -> Tensor:
    everything = sum(int(lengths[i]) for one in step for i in one)
    rows = [row[: lengths[i]] for row, i in zip(losses, batch, strict=True)]
    return torch.cat(rows).mul(world / everything).sum()
