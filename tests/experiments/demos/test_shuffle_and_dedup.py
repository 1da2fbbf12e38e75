"""Data at scale: a store that fails, orders in lanes, buffers, duplicates."""

import http.client
import zlib
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from lockstep.experiments.demos import object_store, shuffle_and_dedup
from lockstep.experiments.demos.object_store import (
    BATCH,
    SHARDS,
    SIZE,
    LaneOrder,
    Store,
    serving,
    trained,
)
from lockstep.trainer.order import GlobalOrder

WHOLE, HALF = SHARDS * SIZE, SHARDS * SIZE // 2
KINDS = {
    "slow_down": object_store.Throttled,
    "reset": (ConnectionError, http.client.BadStatusLine),
    "truncated": http.client.IncompleteRead,
    "flipped": object_store.Damaged,
}


@pytest.mark.parametrize(("before", "after"), [(4, 2), (4, 1), (1, 4), (4, 3)])
def test_a_stream_resumes_exactly_on_other_ranks(
    before: int, after: int
) -> None:
    """Half of an epoch is read by so many ranks and the rest by another number,
    from a store that fails each third request in one of four ways. Each of the
    240 samples is read once, and each step has the samples that it has
    without faults and without a stop."""
    objects, index = object_store.written()
    faults = {3 * i: [*KINDS][i % 4] for i in range(100)}
    with serving(Store(objects, faults)) as port:
        ids = trained(port, index, before, 0, HALF)
        ids += trained(port, index, after, HALF, WHOLE)
    with serving(Store(objects, {})) as port:
        calm = trained(port, index, 2, 0, WHOLE)
    assert sorted(ids) == list(range(WHOLE))
    for step in range(0, WHOLE, BATCH):
        one, other = ids[step : step + BATCH], calm[step : step + BATCH]
        assert {*one} == {*other}


@pytest.mark.parametrize("kind", KINDS)
def test_a_failed_read_is_noticed_and_repeated(kind: str) -> None:
    """A throttled request, a connection that is reset, a body that ends early
    and one with a flipped bit each raise an error of their own. Asked again,
    the store gives the right bytes, after exactly two requests."""
    objects, index = object_store.written()
    name, body = next(iter(objects.items()))
    store = Store(objects, {0: kind, 1: kind})
    with serving(store) as port:

        def read() -> bytes:
            return object_store.get(port, name, 0, len(body), index[name])

        with pytest.raises(KINDS[kind]):  # type: ignore[call-overload]
            read()
        store.asked.clear()
        store.faults.pop(1)
        got = object_store.patiently(read, np.random.default_rng(0))
    assert got == body
    assert len(store.asked) == 2


def test_a_range_is_read_and_no_more() -> None:
    """A request for a range of an object returns those bytes alone."""
    objects, _ = object_store.written()
    name, body = next(iter(objects.items()))
    with serving(Store(objects, {})) as port:
        part = object_store.get(port, name, 128, 256, zlib.crc32(body[128:256]))
    assert part == body[128:256]


def test_a_reader_gives_up_after_its_tries() -> None:
    """A store that throttles every request is asked six times, and then the
    error is raised rather than hidden."""
    objects, index = object_store.written()
    store = Store(objects, dict.fromkeys(range(20), "slow_down"))
    with serving(store) as port, pytest.raises(object_store.Throttled):
        trained(port, index, 1, 0, BATCH)
    assert len(store.asked) == 6


def test_a_hedged_request_does_not_wait_for_a_late_answer() -> None:
    """The store holds back its first answer until the reader has finished. A
    hedged read asks a second time and returns that answer; of two requests
    that are in time only one is sent."""
    objects, index = object_store.written()
    name, body = next(iter(objects.items()))
    store = Store(objects, {0: "late"})
    with serving(store) as port:

        def read() -> bytes:
            return object_store.get(port, name, 0, len(body), index[name])

        assert object_store.hedged(read, 0.05) == body
        assert not store.release.is_set()
        assert len(store.asked) == 2
        store.release.set()
        assert object_store.hedged(read, 5.0) == body
        assert len(store.asked) == 3


@pytest.mark.parametrize(("lanes", "requests"), [(4, SHARDS), (1, 92)])
def test_lanes_read_each_shard_once(lanes: int, requests: int) -> None:
    """Four ranks read an epoch. With four lanes each of the 24 shards is
    fetched once. If all ranks deal out one order, 92 are: 24 for each rank,
    but for four times that a rank gets none of a shard's ten samples."""
    objects, index = object_store.written()
    store = Store(objects, {})
    with serving(store) as port:
        trained(port, index, 4, 0, WHOLE, lanes)
    assert len(store.asked) == requests


def test_lanes_are_a_permutation_of_all_samples() -> None:
    """Each of two epochs has every sample of every shard once, in different
    orders, and a position asked for alone gives what it gives in the order."""
    order = LaneOrder(SHARDS, SIZE, 2, 4, seed=3)
    both = []
    for epoch in range(2):
        shard, sample = order(np.arange(WHOLE) + epoch * WHOLE)
        both.append(shard * SIZE + sample)
        assert sorted(both[-1].tolist()) == list(range(WHOLE))
    assert (both[0] != both[1]).mean() > 0.9
    shard, sample = order(np.array([WHOLE + 77]))
    assert shard * SIZE + sample == both[1][77]


@pytest.mark.parametrize("size", [100, 1000])
def test_a_buffer_mixes_as_far_as_its_size(size: int) -> None:
    """A buffer moves none of 100,000 samples forward by more than its size. The
    standard deviation of the displacement is the size within 3 %, and 1 -
    exp(-4) = 98.2 % move by at most three sizes, within half a percent."""
    first, deviation, near = shuffle_and_dedup.spread(size)
    assert first <= size
    assert deviation == pytest.approx(size, rel=0.03)
    assert near == pytest.approx(1 - np.exp(-4), abs=5e-3)


def test_a_permutation_displaces_by_0_41_of_the_data() -> None:
    """A global permutation of 100,000 samples moves them with a standard
    deviation of n / sqrt(6), within 1 %."""
    far = shuffle_and_dedup.displaced(
        GlobalOrder(100_000, 0)(np.arange(100_000))
    )
    assert far.std() == pytest.approx(100_000 / np.sqrt(6), rel=0.01)


@pytest.mark.parametrize("similarity", [0.5, 0.6, 0.75, 0.9])
def test_minhash_finds_duplicates_as_the_curve_says(similarity: float) -> None:
    """The share of 400 drawn pairs of a known Jaccard similarity that agrees in
    one of 14 bands of 8 hashes is 1 - (1 - s^8)^14, within 7 percentage points:
    three standard deviations of 400 draws at most."""
    share = shuffle_and_dedup.measured(similarity, 8, 14)
    assert share == pytest.approx(
        shuffle_and_dedup.found(similarity, 8, 14), abs=0.07
    )


def test_signatures_agree_as_often_as_documents_are_similar() -> None:
    """Two documents that share 60 % of their shingles have the same minimum
    under 60 % of 4,000 hash functions, within 2.5 percentage points."""
    one, other = (
        shuffle_and_dedup.signature(shingles, 4000)
        for shingles in shuffle_and_dedup.pair(0.6, np.random.default_rng(1))
    )
    assert (one == other).mean() == pytest.approx(0.6, abs=0.025)


def test_a_rewritten_copy_escapes_a_long_ngram() -> None:
    """A test item copied word for word is found by all of its 13-grams and
    8-grams. With each tenth token replaced no 13-gram is left, and 8-grams
    still find a fifth of it or more; an item that was not copied has none."""
    assert (
        shuffle_and_dedup.leaked(0, 13) == shuffle_and_dedup.leaked(0, 8) == 1
    )
    assert shuffle_and_dedup.leaked(10, 13) == 0
    assert shuffle_and_dedup.leaked(10, 8) > 0.2
    assert shuffle_and_dedup.leaked(1, 8) == 0


@pytest.mark.parametrize(
    ("demo", "parts"),
    [
        (object_store, ["store"]),
        (shuffle_and_dedup, ["shuffle", "minhash", "ngrams"]),
    ],
)
def test_what_the_page_on_data_at_scale_shows(
    demo: object, parts: list[str]
) -> None:
    """The runs print what the page shows."""
    said = StringIO()
    with redirect_stdout(said):
        demo.main()  # type: ignore[attr-defined]
    shown = [
        Path(f"docs/recorded/data-at-scale-{part}.txt").read_text()
        for part in parts
    ]
    assert said.getvalue() == "\n".join(shown)
