"""The order is a permutation, looks like a shuffle, and costs no memory."""

import tracemalloc
from collections.abc import Callable, Iterator
from itertools import islice
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, Dataset

from lockstep.trainer import order
from lockstep.trainer.extensions.sampler import (
    ResumeAwareDistributedSampler,
)
from lockstep.trainer.order import BLOCK, GlobalOrder
from tests.conftest import daily

Shuffle = Callable[[int, int], np.ndarray]  # (n, draw) to (n,) ids


# A permutation


def test_every_length_to_5000_is_a_bijection() -> None:
    for n in range(1, 5001):
        ids = GlobalOrder(n, seed=1).permute(np.arange(n), epoch=n % 7)
        assert np.array_equal(np.sort(ids), np.arange(n)), n


@settings(deadline=None)
@given(st.integers(1, 10**12), st.integers(0, 2**63 - 1), st.data())
def test_every_length_to_a_trillion_has_an_inverse(
    n: int, seed: int, data: st.DataObject
) -> None:
    """Orders of up to 10^12 ids have an inverse within their range, so they are
    one-to-one."""
    index = np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=1)))
    epoch = data.draw(st.integers(0, 2**31))
    there = GlobalOrder(n, seed)
    ids = there.permute(index, epoch)
    assert ids.dtype == np.int64
    assert ((ids >= 0) & (ids < n)).all()
    assert np.array_equal(there.permute(ids, epoch, back=True), index)


@pytest.mark.parametrize("n", [10**6 + 1, 2**32, 10**9 + 7, 10**12])
def test_large_orders_are_one_to_one(n: int) -> None:
    """100,000 indices of which many are neighbors, and both ends."""
    start = np.random.default_rng(0).integers(0, n, 100)[:, None]
    index = np.unique((start + np.arange(1000)) % n)
    index = np.union1d(index, [0, n - 1])
    order = GlobalOrder(n, seed=5)
    ids = order.permute(index, epoch=3)
    assert len(np.unique(ids)) == len(index)
    assert np.array_equal(order.permute(ids, 3, back=True), index)


def test_epochs_and_seeds_give_different_orders() -> None:
    """Any two of 25 orders, from five seeds and five epochs, agree in fewer
    than 20 of 1,437 places, as two shuffles do."""
    n, index = 1437, np.arange(1437)
    orders = [
        GlobalOrder(n, seed).permute(index, epoch)
        for seed in (0, 1, 2, 2**32, 2**63 - 1)
        for epoch in range(5)
    ]
    for i, one in enumerate(orders):  # 0 and 2**32 end in the same 32 bits
        for other in orders[:i]:
            # Two shuffles agree in one place on average; in 20, never.
            assert (one == other).sum() < 20


def test_the_stream_is_one_epoch_after_another() -> None:
    n, seed = 97, 4
    stream = GlobalOrder(n, seed)(np.arange(3 * n).reshape(3, n))
    epochs = [GlobalOrder(n, seed).permute(np.arange(n), e) for e in range(3)]
    assert np.array_equal(stream, np.stack(epochs))


# A shuffle, by the tests below and no others: for lengths from 64 on.

DRAWS = 2000
LENGTHS = [64, 65, 67, 82, 101, 128, 257, 1025]
# Both statistics are close to normal, mean 0 and variance 1, for a true
# shuffle. Five deviations come by chance once in a million tries; the draws
# are fixed, so that a test which passes once passes always.
DEVIATIONS = 5.0


def ours(n: int, draw: int) -> np.ndarray:
    return GlobalOrder(n, seed=draw % 10).permute(np.arange(n), draw // 10)


def true_shuffle(n: int, draw: int) -> np.ndarray:
    return np.random.default_rng((n, draw)).permutation(n)


def identity(n: int, draw: int) -> np.ndarray:
    return np.arange(n)


def affine(n: int, draw: int) -> np.ndarray:
    """i to (a i + b) mod n: every position is equally likely everywhere."""
    rng = np.random.default_rng((n, draw))
    units = np.arange(1, n)[np.gcd(np.arange(1, n), n) == 1]
    return (rng.choice(units) * np.arange(n) + rng.integers(n)) % n


def rotation(n: int, draw: int) -> np.ndarray:
    """One shuffle for all, turned again each time: epochs look alike."""
    return np.roll(true_shuffle(n, 0), draw)


def draws(shuffle: Shuffle, n: int) -> np.ndarray:
    return np.stack([shuffle(n, draw) for draw in range(DRAWS)])


def deviations(cells: np.ndarray, counts: np.ndarray, of: int) -> float:
    """Chi-square of `counts` in bins that hold `cells` of `of` values each,
    row by row, in standard deviations from its mean."""
    expected = counts.sum(axis=1, keepdims=True) * cells / of
    freedom = counts.shape[0] * (counts.shape[1] - 1)
    excess = ((counts - expected) ** 2 / expected).sum() - freedom
    return float(excess / sqrt(2 * freedom))


def position(ids: np.ndarray) -> float:
    """Where an index lands: up to 64 indices, ids in up to 64 bins."""
    n = ids.shape[1]
    bins = min(n, 64)
    binned = ids * bins // n
    counts = [
        np.bincount(binned[:, index], minlength=bins)
        for index in np.linspace(0, n - 1, bins).astype(int)
    ]
    cells = np.bincount(np.arange(n) * bins // n)
    return deviations(cells, np.array(counts), n)


def neighbors(ids: np.ndarray) -> float:
    """How far apart, mod n, two ids are that follow each other."""
    n = ids.shape[1]
    bins = min(n - 1, 256)
    apart = (ids[:, 1:] - ids[:, :-1]) % n - 1
    counts = np.bincount((apart * bins // (n - 1)).ravel(), minlength=bins)
    cells = np.bincount(np.arange(n - 1) * bins // (n - 1))
    return deviations(cells, counts[None], n - 1)


@pytest.mark.parametrize("shuffle", [ours, true_shuffle])
@pytest.mark.parametrize("n", daily(LENGTHS, 64, 67, 257, 1025))
def test_positions_and_neighbors_are_those_of_a_shuffle(
    n: int, shuffle: Shuffle
) -> None:
    """Two-sided: an order that is too even is not random either."""
    ids = draws(shuffle, n)
    assert abs(position(ids)) < DEVIATIONS
    assert abs(neighbors(ids)) < DEVIATIONS


@pytest.mark.parametrize("n", [64, 257])
@pytest.mark.parametrize("shuffle", [identity, affine, rotation])
def test_the_tests_tell_what_is_no_shuffle(n: int, shuffle: Shuffle) -> None:
    ids = draws(shuffle, n)
    worst = max(abs(position(ids)), abs(neighbors(ids)))
    assert worst > 4 * DEVIATIONS


@pytest.mark.parametrize("rounds", [1, 2, 3, 4])
def test_the_tests_tell_a_cipher_of_few_rounds(
    rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order, "ROUNDS", rounds)
    for n in (64, 101):
        ids = draws(ours, n)
        assert max(abs(position(ids)), abs(neighbors(ids))) > 4 * DEVIATIONS


# No memory, no waiting


def test_order_of_a_trillion_samples_needs_no_memory() -> None:
    """Permuting a thousand positions of a trillion takes memory for a few
    arrays of a thousand."""
    n, index = 10**12, np.arange(10**12 - 1000, 10**12)
    GlobalOrder(n, 0).permute(index, 0)  # first calls import and cache
    tracemalloc.start()
    try:
        GlobalOrder(n, 0).permute(index, 7)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100 * index.nbytes  # some arrays as long as the request


def test_seeking_a_sampler_costs_no_memory() -> None:
    tracemalloc.start()
    try:
        last = sampler(10**12, 2, 1)
        last.commit(10**12 - 10**6)
        ids = list(islice(last, 10))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(set(ids)) == 10
    assert peak < 100 * 8 * BLOCK  # its block of indices, and some copies


def squares() -> Iterator[int]:
    """Lengths whose grid has most cells outside: just above a square or a
    product of neighbors. And some others."""
    for root in (2, 3, 5, 8, 31, 64, 100):
        yield from (root**2 + 1, root * (root + 1) + 1, root**2)
    yield from (1, 2, 3, 1437, 5000)


def applications(
    n: int, index: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> tuple[int, int]:
    """(values encrypted, longest walk) to permute `index`."""
    sizes: list[int] = []
    encrypt = GlobalOrder._encrypt

    def counting(self: GlobalOrder, x: np.ndarray, *rest: Any) -> np.ndarray:
        sizes.append(len(x))
        return encrypt(self, x, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(GlobalOrder, "_encrypt", counting)
        GlobalOrder(n, seed=2).permute(index, epoch=1)
    return sum(sizes), len(sizes)


@pytest.mark.parametrize("n", list(squares()))
def test_walks_are_bounded(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk passes only cells outside range(n), each at most once, and there
    are fewer than ceil(sqrt(n)); so all walks of an epoch together do."""
    total, longest = applications(n, np.arange(n), monkeypatch)
    outside = total - n
    assert outside < max(1, np.ceil(np.sqrt(n)))
    assert longest - 1 <= outside


def test_walks_are_rare_in_large_orders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    n = 10**12 + 1  # one more than a square: a million cells too many
    index = np.random.default_rng(0).integers(0, n, 10**5)
    total, longest = applications(n, index, monkeypatch)
    # One in a million walks at all: 0.1 expected of 100,000.
    assert total - len(index) < 5
    assert longest <= 3


# The drop-in sampler


class Numbers(Dataset[int]):
    """0 to n - 1."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> int:
        return index


def sampler(
    n: int, world: int, rank: int, **options: Any
) -> ResumeAwareDistributedSampler:
    return ResumeAwareDistributedSampler(Numbers(n), world, rank, **options)


lengths, worlds = st.integers(1, 300), st.integers(1, 9)
quick = settings(deadline=None, max_examples=200)


def samplers(
    n: int, world: int, **options: Any
) -> list[ResumeAwareDistributedSampler]:
    return [sampler(n, world, r, **options) for r in range(world)]


def whole_epoch(n: int, epoch: int, **options: Any) -> list[int]:
    alone = sampler(n, 1, 0, **options)
    alone.set_epoch(epoch)
    return list(alone)


@quick
@given(lengths, worlds, st.booleans(), st.booleans(), st.data())
def test_shares_are_the_rest_of_the_epoch(
    n: int, world: int, shuffle: bool, drop_last: bool, data: st.DataObject
) -> None:
    """Rank r takes every world-th of what is left, in the epoch's order;
    without padding, and with drop_last all take the same number."""
    consumed = data.draw(st.integers(0, n))
    epoch, options = 3, {"shuffle": shuffle, "seed": 11}
    left = whole_epoch(n, epoch, **options)[consumed:]
    if drop_last:
        left = left[: len(left) // world * world]
    shares = []
    for rank, s in enumerate(
        samplers(n, world, drop_last=drop_last, **options)
    ):
        s.set_epoch(epoch)
        s.commit(consumed)
        shares.append(list(s))
        assert len(s) == len(shares[-1])
        assert shares[-1] == left[rank::world]
    sizes = list(map(len, shares))
    assert max(sizes) - min(sizes) <= (0 if drop_last else 1)
    assert sum(sizes) == len(left)


@quick
@given(lengths, st.lists(st.tuples(worlds, st.integers(0, 12))), worlds)
def test_an_epoch_resumed_on_other_world_sizes_is_the_same_epoch(
    n: int, legs: list[tuple[int, int]], last: int
) -> None:
    """Any number of launches, each with ranks of its own: what they trained
    on, step by step, is the epoch in its order."""
    trained: list[int] = []
    state = samplers(n, 1, seed=5)[0].state_dict()
    for world, steps in [*legs, (last, n)]:
        ranks = samplers(n, world, seed=5)
        for s in ranks:
            s.load_state_dict(state)
        rows = list(zip(*(pad(iter(s), steps) for s in ranks), strict=True))
        for row in rows:
            batch = [i for i in row if i is not None]
            trained += batch
            for s in ranks:
                s.commit(len(batch))
        states = [s.state_dict() for s in ranks]
        assert all(other == states[0] for other in states)
        state = states[0]
    assert trained == whole_epoch(n, 0, seed=5)
    assert state["consumed"] == n


def pad(ids: Iterator[int], steps: int) -> list[int | None]:
    """The first `steps` ids; None for what is not there."""
    return [next(ids, None) for _ in range(steps)]


def test_it_shuffles_unless_told_not_to() -> None:
    assert list(sampler(100, 1, 0)) != list(range(100))
    assert list(sampler(100, 2, 1, shuffle=False)) == [*range(1, 100, 2)]


def test_another_epoch_begins_anew_and_the_same_one_goes_on() -> None:
    s = sampler(100, 2, 0)
    first = list(s)
    s.commit(30)
    s.set_epoch(0)
    assert list(s) == first[15:]
    s.set_epoch(1)
    assert len(s) == 50
    assert list(s) != first


def test_every_epoch_is_whole() -> None:
    """Each of several epochs trains on every sample once. A counter that isn't
    reset at the end of an epoch would leave the next epochs empty."""
    s = sampler(100, 2, 0)
    for epoch in range(3):
        s.set_epoch(epoch)
        assert len(list(s)) == 50
        s.commit(100)
        assert list(s) == []


def test_commit_keeps_its_bounds() -> None:
    s = sampler(10, 2, 0)
    s.commit(0)
    s.commit(7)
    for wrong in (-1, 4):
        with pytest.raises(ValueError, match=f"{wrong} committed, 3 were left"):
            s.commit(wrong)
    assert s.state_dict()["consumed"] == 7
    s.commit(3)
    assert len(s) == 0


@pytest.mark.parametrize("workers", [0, 2])
def test_prefetching_cannot_move_progress(workers: int) -> None:
    """Workers draw ahead of what is trained; the state knows nothing of it."""
    s = sampler(200, 2, 0, seed=3)
    mine = list(s)
    loader: DataLoader[int] = DataLoader(
        Numbers(200), batch_size=4, sampler=s, num_workers=workers
    )
    batches = iter(loader)
    trained: list[int] = []
    for _ in range(5):
        trained += next(batches).tolist()
        s.commit(8)
    assert s.state_dict()["consumed"] == 40
    after = sampler(200, 2, 0, seed=3)
    after.load_state_dict(s.state_dict())
    assert trained + list(after) == mine


@pytest.mark.parametrize(
    "changed", [{"n": 101}, {"seed": 2}, {"shuffle": False}]
)
def test_the_state_of_another_order_is_refused(changed: dict[str, Any]) -> None:
    options = {"n": 100, "seed": 1, "shuffle": True}
    state = sampler(rank=0, world=2, **options).state_dict()
    name = {"n": "length"}.get(*changed, *changed)
    other = sampler(rank=0, world=2, **options | changed)
    with pytest.raises(ValueError, match=f"^{name} is "):
        other.load_state_dict(state)
    assert other.state_dict()["consumed"] == 0


def test_the_state_is_plain_data() -> None:
    s = sampler(10, 2, 0, seed=4)
    s.set_epoch(2)
    s.commit(6)
    assert s.state_dict() == {
        "epoch": 2,
        "consumed": 6,
        "seed": 4,
        "shuffle": True,
        "length": 10,
    }


def test_readme_and_pages_say_where_to_import_the_sampler_from() -> None:
    kind = ResumeAwareDistributedSampler
    root = Path(__file__).parents[2]
    told = {
        page: [
            p
            for p in page.read_text("utf-8").split("\n\n")
            if kind.__name__ in p
        ]
        for page in [root / "README.md", *root.glob("docs/**/*.md")]
    }
    assert told[root / "README.md"]
    for page, paragraphs in told.items():
        for paragraph in paragraphs:
            assert kind.__module__ in paragraph, f"{page}: {paragraph}"
