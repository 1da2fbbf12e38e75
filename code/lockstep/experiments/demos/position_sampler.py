"""A batch sampler whose order is a function of seed, epoch and position."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, RandomSampler, Sampler


# --8<-- [start:sampler]
class PositionSampler(Sampler[list[tuple[int, int]]]):
    """Yield a rank's share of each step, as (epoch, id), without end."""

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

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        position = self.position
        while True:
            step = range(position, position + self.batch)
            yield [self.sample(p) for p in step[self.rank :: self.world]]
            position += self.batch

    def sample(self, position: int) -> tuple[int, int]:
        epoch, index = divmod(position, self.samples)
        return epoch, int(order(self.samples, self.seed, epoch)[index])


@lru_cache(maxsize=2)
def order(samples: int, seed: int, epoch: int) -> np.ndarray:
    """Return the ids of an epoch in their shuffled order."""
    return np.random.default_rng([seed, epoch]).permutation(samples)


# --8<-- [end:sampler]
# --8<-- [start:train]
def train(
    data: Dataset,
    step: Callable[[Any], None],  # its micro-batches, then optimizer.step()
    steps: int,
    position: int,  # from the checkpoint
    **job: int,  # samples, batch, rank, world
) -> int:
    """Train for some steps, and return the position to save."""
    sampler = PositionSampler(position=position, **job)
    loader = DataLoader(data, batch_sampler=sampler, num_workers=2)
    for batch in islice(loader, steps):
        step(batch)
        position += job["batch"]
    return position


# --8<-- [end:train]
def redrawn(
    samples: int, stops: Sequence[int], seed: int
) -> tuple[float, float]:
    """Stop an epoch at each of `stops`; each launch draws a new order and skips
    as many samples as were used before.

    Returns:
        The shares of the epoch's samples that are trained on more than once,
        and never.
    """
    generator = torch.Generator().manual_seed(seed)
    sampler = RandomSampler(range(samples), generator=generator)
    used = Counter[int]()
    for begin, end in pairwise([0, *stops, samples]):
        used.update([*sampler][begin:end])
    again = sum(times > 1 for times in used.values())
    return again / samples, 1 - len(used) / samples
