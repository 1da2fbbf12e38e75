"""An order that is a function of the position, against one that is redrawn."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from statistics import mean

import pytest
import torch
from torch.utils.data import DataLoader

from lockstep.experiments.demos.position_sampler import (
    PositionSampler,
    redrawn,
)

SAMPLES, BATCH = 50, 8


def steps(count: int, world: int, position: int = 0) -> list[list[int]]:
    """The ids of each step, as real loaders with two workers yield them."""
    ranks: list[DataLoader[int]] = [
        DataLoader(
            range(SAMPLES),  # type: ignore[arg-type]
            batch_sampler=PositionSampler(
                SAMPLES, BATCH, rank, world, position=position
            ),
            num_workers=2,
        )
        for rank in range(world)
    ]
    shares = zip(*(islice(rank, count) for rank in ranks), strict=True)
    return [sorted(i for ids in step for i in ids.tolist()) for step in shares]


@pytest.mark.parametrize("world", [2, 3])
def test_a_position_sampler_resumes_at_another_world_size(world: int) -> None:
    """Stop after two steps of one rank, with batches prefetched, and resume on
    more ranks: each epoch has each sample once."""
    before = steps(2, world=1)
    after = steps(11, world, position=2 * BATCH)
    assert before + after == steps(13, world=1)
    counts = Counter(i for step in before + after for i in step)
    assert 13 * BATCH == 2 * SAMPLES + 4
    assert sorted(counts.values()) == [2] * (SAMPLES - 4) + [3] * 4


def test_a_position_sampler_reshuffles_each_epoch() -> None:
    """Epochs differ, and seeds that are neighbors share no order."""
    epochs = [
        [PositionSampler(SAMPLES, BATCH, 0, 1, seed).id_at(p) for p in part]
        for seed in (0, 1)
        for part in (range(SAMPLES), range(SAMPLES, 2 * SAMPLES))
    ]
    assert len({*map(tuple, epochs)}) == 4
    assert all(sorted(ids) == [*range(SAMPLES)] for ids in epochs)


@pytest.mark.parametrize("trained", [20, 32, 48])
def test_a_redrawn_order_repeats_and_loses_p_times_n_minus_p_over_n(
    trained: int,
) -> None:
    """torch's sampler draws a new order for the rest of an epoch of 64."""
    found = [redrawn(64, trained, seed) for seed in range(400)]
    assert all(twice == never for twice, never in found)
    expected = trained * (64 - trained) / 64
    assert mean(twice for twice, _ in found) == pytest.approx(
        expected, rel=0.03
    )


def test_torchs_cpu_generator_uses_the_low_32_bits_of_a_seed() -> None:
    """So `(seed << 32) + epoch` is the same order for each seed."""
    orders = [
        torch.randperm(
            SAMPLES, generator=torch.Generator().manual_seed((seed << 32) + 1)
        ).tolist()
        for seed in (0, 1)
    ]
    assert orders[0] == orders[1]
