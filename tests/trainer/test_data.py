"""A batch belongs to the run; who reads it, and how, cannot change it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from lockstep.trainer.config import TrainConfig
from lockstep.trainer.data import Samples, load_dataset, shares, uniform
from lockstep.trainer.order import BLOCK, GlobalOrder
from lockstep.trainer.process import Process

CPU = torch.device("cpu")
Micro = list[list[list[int]]]  # [epochs, ids] of every micro-batch


def config(**changed: Any) -> TrainConfig:
    given: dict[str, Any] = {"run_dir": Path("run"), "seed": 9}
    return TrainConfig(**given | changed)


def launched(
    batch: int, world: int, micro: int, accum: int
) -> tuple[TrainConfig, list[Process]]:
    cfg = config(
        global_batch_size=batch,
        micro_batch_size=micro,
        grad_accum_steps=accum,
    ).for_launch(world, {})
    return cfg, [Process(rank, world, CPU) for rank in range(world)]


def steps_of(
    cfg: TrainConfig, me: Process, n: int, position: int, end: int
) -> list[np.ndarray]:
    """Rank `me`'s share of every step, its micro-batches put together."""
    micros = list(shares(cfg, me, n, position, end))
    accum = cfg.grad_accum_steps or 1
    assert len(micros) % accum == 0
    assert all(m.shape[1] <= cfg.micro_batch_size for m in micros)
    return [
        np.concatenate(micros[i : i + accum], axis=1)
        for i in range(0, len(micros), accum)
    ]


def batches(n: int, batch: int, position: int, end: int) -> list[np.ndarray]:
    """What every step trains on, by definition: slices of the stream."""
    stream = np.arange(position, end)
    both = np.stack([stream // n, GlobalOrder(n, 9)(stream)])
    return [both[:, i : i + batch] for i in range(0, end - position, batch)]


@settings(deadline=None, max_examples=150)
@given(
    st.integers(1, 200),
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(0, 6),
    st.integers(0, 700),
)
def test_share_is_every_nth_sample_of_the_step(
    n: int, world: int, micro: int, accum: int, first: int, more: int
) -> None:
    """For every split of the batch and from every step, rank r trains on
    batch[r::world], and the ranks together train on the whole batch, across
    epochs. Only the run's last batch is short, and even there every rank has
    all its micro-batches."""
    batch = world * micro * accum
    position = first * batch
    end = position + more
    cfg, ranks = launched(batch, world, micro, accum)
    expected = batches(n, batch, position, end)
    assert all(b.shape[1] == batch for b in expected[:-1])
    for me in ranks:
        got = steps_of(cfg, me, n, position, end)
        assert len(got) == len(expected)
        for share, whole in zip(got, expected, strict=True):
            assert np.array_equal(share, whole[:, me.rank :: world])


def test_long_runs_are_cut_into_blocks_unseen() -> None:
    """The order is computed some thousand indices at a time: the seams of the
    blocks show nowhere, for batches below and above a block."""
    n = 1437
    for batch, world in ((96, 2), (3 * BLOCK, 1), (BLOCK + 2, 2)):
        end = 2 * BLOCK * world + 3 * batch + 5
        cfg, ranks = launched(batch, world, batch // world, 1)
        expected = batches(n, batch, 0, end)
        for me in ranks:
            got = steps_of(cfg, me, n, 0, end)
            assert len(got) == len(expected)
            for share, whole in zip(got, expected, strict=True):
                assert np.array_equal(share, whole[:, me.rank :: world])


def test_batches_straddle_epochs() -> None:
    cfg, (me,) = launched(10, 1, 10, 1)
    straddling = steps_of(cfg, me, 25, 0, 50)[2]
    assert straddling[0].tolist() == [0] * 5 + [1] * 5


def test_a_short_last_batch_leaves_some_shares_empty() -> None:
    """Three samples for four ranks of two micro-batches each."""
    cfg, ranks = launched(16, 4, 2, 2)
    counts = [
        [m.shape[1] for m in list(shares(cfg, me, 50, 0, 35))[-2:]]
        for me in ranks
    ]
    assert counts == [[1, 0], [1, 0], [1, 0], [0, 0]]


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_loading_keeps_the_order_and_every_value(workers: int) -> None:
    """Workers prefetch as they like: the loader yields what is asked of it."""
    cfg, (me, _) = launched(64, 2, 8, 4)
    data, _ = load_dataset(cfg)
    wanted = list(shares(cfg, me, len(data), 64, 1000))
    loader: DataLoader[Any] = DataLoader(
        data,
        batch_size=None,
        sampler=shares(cfg, me, len(data), 64, 1000),
        num_workers=workers,
        generator=torch.Generator(),
    )
    for index, (ids, x, y) in zip(wanted, loader, strict=True):
        expected = data[index]
        for got, value in zip((ids, x, y), expected, strict=True):
            assert torch.equal(got, value)


# Randomness of a sample


def noise(seed: int, pairs: list[tuple[int, int]], k: int) -> np.ndarray:
    epochs, ids = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return uniform(seed, epochs, ids, k)


pairs = st.tuples(st.integers(0, 10**6), st.integers(0, 10**12))


@settings(deadline=None)
@given(st.integers(0, 2**63 - 1), st.lists(pairs), pairs, st.integers(0, 9))
def test_sample_randomness_depends_on_seed_epoch_and_id(
    seed: int, company: list[tuple[int, int]], own: tuple[int, int], at: int
) -> None:
    """A sample is read alone and among other samples. Its random numbers depend
    only on the seed, the epoch and the sample's id."""
    together = noise(seed, [*company[:at], own, *company[at:]], 5)
    place = len(company[:at])
    assert np.array_equal(together[place], noise(seed, [own], 5)[0])


def test_seed_epoch_and_id_each_change_it() -> None:
    values = [
        noise(seed, [(epoch, i)], 4).tobytes()
        for seed in (0, 1, 2**32, 2**63 - 1)
        for epoch in range(20)
        for i in range(50)
    ]
    assert len(set(values)) == len(values)


@pytest.mark.parametrize("vary", ["seed", "epoch", "id"])
def test_it_is_uniform_and_unrelated_along_every_input(vary: str) -> None:
    """20,000 consecutive inputs, 8 values each, in 64 bins; and neighboring
    inputs, and neighboring values of one input, are uncorrelated."""
    m, k, bins = 20_000, 8, 64
    zero, count = np.zeros(m, np.int64), np.arange(m)
    if vary == "seed":
        values = np.concatenate([noise(s, [(3, 5)], k) for s in range(m // 4)])
    else:
        epochs, ids = (count, zero) if vary == "epoch" else (zero, count)
        values = uniform(7, epochs, ids, k)
    assert values.min() >= 0
    assert values.max() < 1
    for column in range(k):
        found, _ = np.histogram(values[:, column], bins, range=(0, 1))
        expected = len(values) / bins
        chi2 = ((found - expected) ** 2 / expected).sum()
        # Five standard deviations from the mean of a chi-square; fixed draws.
        assert abs(chi2 - (bins - 1)) < 5 * np.sqrt(2 * (bins - 1))
    near = 5 / np.sqrt(len(values))  # five deviations of a correlation of 0
    for column in range(k):
        one = values[:, column]
        assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < near
        other = values[:, (column + 1) % k]
        assert abs(np.corrcoef(one, other)[0, 1]) < near


def test_features_are_dropped_by_that_randomness() -> None:
    cfg = config(feature_dropout=0.25, seed=3)
    data = Samples(np.ones((100, 40)), np.arange(100), cfg)
    epochs, ids = np.full(100, 2), np.arange(100)[::-1].copy()
    got_ids, x, y = data[np.stack([epochs, ids])]
    assert got_ids.tolist() == y.tolist() == ids.tolist()
    kept = uniform(3, epochs, ids, 40) >= 0.25
    assert np.array_equal(x.numpy(), kept.astype(np.float32))
    assert kept.any()
    assert not kept.all()


def test_held_out_samples_keep_all_features() -> None:
    """Features are dropped in training, and not where accuracy is measured."""
    data, held_out = load_dataset(config(dataset="toy", feature_dropout=0.5))
    index = np.stack([np.zeros(9, int), np.arange(9)])
    assert held_out[index][1].equal(held_out.x[:9])
    assert not data[index][1].equal(data.x[:9])


def test_an_empty_micro_batch_has_the_shape_of_the_others() -> None:
    data, _ = load_dataset(config(dataset="toy"))
    ids, x, y = data[np.zeros((2, 0), np.int64)]
    assert (ids.shape, x.shape, y.shape) == ((0,), (0, 32), (0,))


# The data themselves


@pytest.mark.parametrize(("name", "n"), [("digits", 1797), ("toy", 5000)])
def test_the_held_out_part_is_fixed_and_apart(name: str, n: int) -> None:
    """A fifth, the same for every seed, that shares no sample with training."""
    data, held_out = load_dataset(config(dataset=name))
    assert len(data) + len(held_out) == n
    assert len(held_out) == n - n * 4 // 5
    for seed in (0, 1):
        again = load_dataset(config(dataset=name, seed=seed))
        assert [part.fingerprint for part in again] == [
            data.fingerprint,
            held_out.fingerprint,
        ]
    rows = {row.numpy().tobytes() for row in data.x}
    assert not any(row.numpy().tobytes() in rows for row in held_out.x)
    assert set(held_out.y.tolist()) == set(data.y.tolist())


def test_the_toys_labels_can_be_learned() -> None:
    """A linear teacher made them: least squares finds it again, so that loss
    can tell a right trainer from a wrong one."""
    data, held_out = load_dataset(config(dataset="toy"))
    targets = torch.nn.functional.one_hot(data.y).float()
    teacher = torch.linalg.lstsq(data.x, targets).solution
    accuracy = ((held_out.x @ teacher).argmax(1) == held_out.y).float().mean()
    assert accuracy > 0.9


def test_the_fingerprint_changes_with_the_data() -> None:
    """The fingerprint changes when one value, one label, the order or the
    length of the data changes, and not when the data is copied."""
    x, y = np.random.default_rng(0).random((10, 4)), np.arange(10)
    cfg = config()
    whole = Samples(x, y, cfg).fingerprint
    assert Samples(x.copy(), y.copy(), cfg).fingerprint == whole
    other_x, other_y = x.copy(), y.copy()
    other_x[3, 2] += 1e-3
    other_y[9] = 0
    others = [
        Samples(other_x, y, cfg),
        Samples(x, other_y, cfg),
        Samples(x[::-1].copy(), y[::-1].copy(), cfg),
        Samples(x[:9], y[:9], cfg),
    ]
    prints = {other.fingerprint for other in others} | {whole}
    assert len(prints) == 5
