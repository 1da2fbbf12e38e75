"""An order that is a function of the position, against one that is redrawn."""

from __future__ import annotations

from collections import Counter
from statistics import mean
from typing import Any

import pytest
import torch
from torch.utils.data import Dataset, default_collate

from lockstep.experiments.demos.position_sampler import (
    PositionSampler,
    redrawn,
    train,
)

SAMPLES, BATCH = 50, 8


class Samples(Dataset):
    """Returns the epoch and the id that it is asked for."""

    def __getitem__(self, index: tuple[int, int]) -> tuple[int, int]:
        return index


def trained(
    steps: int, world: int, position: int = 0
) -> tuple[list[list[int]], int]:
    """The ids of each step over all ranks, and the position at the end."""
    shares: list[list[int]] = [[] for _ in range(steps)]
    ends = set()
    for rank in range(world):
        own: list[list[int]] = []
        ends.add(
            train(
                Samples(),
                lambda batch, own=own: own.append(batch[1].tolist()),  # type: ignore[misc]
                steps,
                position,
                samples=SAMPLES,
                batch=BATCH,
                rank=rank,
                world=world,
            )
        )
        for share, ids in zip(shares, own, strict=True):
            share += ids
    (end,) = ends
    return [sorted(share) for share in shares], end


@pytest.mark.parametrize("world", [2, 3])
def test_a_position_sampler_resumes_at_another_world_size(world: int) -> None:
    """Stop after two steps of one rank, with batches prefetched, and resume on
    more ranks: the steps of an uninterrupted run."""
    before, position = trained(2, world=1)
    after, end = trained(11, world, position)
    assert (position, end) == (2 * BATCH, 13 * BATCH)
    assert (before + after, end) == trained(13, world=1)
    counts = Counter(i for step in before + after for i in step)
    assert sorted(counts.values()) == [2] * (SAMPLES - 4) + [3] * 4


def test_a_position_sampler_reshuffles_each_epoch() -> None:
    """Epochs differ, and seeds that are neighbors share no order."""
    epochs = [
        [PositionSampler(SAMPLES, BATCH, 0, 1, seed).sample(p)[1] for p in part]
        for seed in (0, 1)
        for part in (range(SAMPLES), range(SAMPLES, 2 * SAMPLES))
    ]
    assert len({*map(tuple, epochs)}) == 4
    assert all(sorted(ids) == [*range(SAMPLES)] for ids in epochs)


@pytest.mark.parametrize("stop", [20, 32, 48])
def test_a_redrawn_order_repeats_and_loses_p_times_n_minus_p_over_n(
    stop: int,
) -> None:
    """torch's sampler draws a new order for the rest of an epoch of 64."""
    found = [redrawn(64, [stop], seed) for seed in range(400)]
    expected: Any = pytest.approx(stop * (64 - stop) / 64 / 64, rel=0.03)
    assert mean(again for again, _ in found) == expected
    assert mean(never for _, never in found) == expected


def test_eleven_redraws_of_an_epoch_lose_a_third() -> None:
    """A sample escapes all twelve parts with (11/12)^12 = 35 %."""
    stops = [100 * part for part in range(1, 12)]
    found = [redrawn(1200, stops, seed)[1] for seed in range(50)]
    assert mean(found) == pytest.approx((11 / 12) ** 12, rel=0.02)


def test_torchs_collate_refuses_an_empty_share() -> None:
    """A batch sampler that yields an empty list needs its own collate_fn."""
    with pytest.raises(IndexError):
        default_collate([])


def test_torchs_cpu_generator_uses_the_low_32_bits_of_a_seed() -> None:
    """So `(seed << 32) + epoch` is the same order for each seed."""
    orders = [
        torch.randperm(
            SAMPLES, generator=torch.Generator().manual_seed((seed << 32) + 1)
        ).tolist()
        for seed in (0, 1)
    ]
    assert orders[0] == orders[1]
