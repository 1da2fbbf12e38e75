"""A batch sampler whose order is a function of seed, epoch and position."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import torch
from torch.utils.data import RandomSampler, Sampler


# --8<-- [start:sampler]
class PositionSampler(Sampler[list[int]]):
    """Yield a rank's share of each step, from a position on, without end."""

    def __init__(
        self,
        samples: int,  # in the data set
        batch: int,  # samples per step, over all ranks
        rank: int,
        world: int,
        seed: int = 0,
        position: int = 0,  # samples that the job has trained on
    ) -> None:
        self.samples, self.batch = samples, batch
        self.rank, self.world = rank, world
        self.seed, self.position = seed, position

    def __iter__(self) -> Iterator[list[int]]:
        position = self.position
        while True:
            step = range(position, position + self.batch)
            yield [self.id_at(p) for p in step[self.rank :: self.world]]
            position += self.batch

    def id_at(self, position: int) -> int:
        epoch, index = divmod(position, self.samples)
        return order(self.samples, self.seed, epoch)[index]


@cache
def order(samples: int, seed: int, epoch: int) -> list[int]:
    """Return the ids of an epoch in their shuffled order."""
    return np.random.default_rng([seed, epoch]).permutation(samples).tolist()


# --8<-- [end:sampler]
def redrawn(samples: int, trained: int, seed: int) -> tuple[int, int]:
    """Resume an epoch with a new order and skip as many samples as were used.

    Returns:
        How many samples the epoch trains on twice, and how many never.
    """
    generator = torch.Generator().manual_seed(seed)
    sampler = RandomSampler(range(samples), generator=generator)
    before, after = [*sampler][:trained], [*sampler][trained:]
    twice = {*before} & {*after}
    return len(twice), samples - len({*before} | {*after})
