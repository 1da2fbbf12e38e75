"""The α–β model is fitted as it is said to be, and the page's tables are what
was measured."""

import json
from pathlib import Path

import pytest

from lockstep.experiments.benchmarks import links
from lockstep.experiments.benchmarks.links import (
    Sweep,
    fit,
    planned,
    points,
    tables,
)
from lockstep.planner.collectives import BUS
from tests import ranks

SIZES = Sweep().sizes()
LINK = {"latency": 30e-6, "bandwidth": 2e9}


def times(op: str, world: int) -> dict[int, float]:
    """By the model."""
    return {
        size: float(planned(op, world, size, **LINK)["seconds"])
        for size in SIZES
    }


@pytest.mark.parametrize("op", BUS)
def test_a_fit_finds_the_link_that_times_were_made_of(op: str) -> None:
    for world in (2, 4):
        assert fit(op, world, times(op, world)) == pytest.approx(LINK)


def test_a_fit_weighs_small_messages_as_much_as_large_ones() -> None:
    """Every time is off by a tenth, up and down in turn. Least squares of
    seconds would follow the largest and miss the latency many times over."""
    off = {
        size: took * (1.1 if i % 2 else 0.9)
        for i, (size, took) in enumerate(times("all_reduce", 4).items())
    }
    assert fit("all_reduce", 4, off) == pytest.approx(LINK, rel=0.1)


def test_the_sizes_go_from_a_kibibyte_to_64_mebibytes_by_four() -> None:
    assert [1024 * 4**step for step in range(9)] == SIZES


def test_a_call_lasts_from_the_last_begin_to_the_last_end() -> None:
    """In three rounds 2, 4 and 3 seconds; a rank that comes early waits."""
    key = ("broadcast", 8)
    found = [
        {key: [(0.0, 9.0, 5), (10.0, 17.0, 0), (20.0, 22.0, 0)]},
        {key: [(8.0, 10.0, 1), (13.0, 14.0, 1), (21.0, 24.0, 1)]},
    ]
    (at,) = points("broadcast", found)
    assert at == {"bytes": 8, "seconds": 3.0, "pages": 0}


def test_a_small_run_finds_positive_links(tmp_path: Path) -> None:
    """16 MiB take so much longer than 1 KiB that no noise hides it."""
    sweep = Sweep(rounds=2, largest=2**24)
    result = tmp_path / "links.json"
    assert ranks.run_ranks(1, links.run, sweep, result) == [0]
    found = json.loads(result.read_text())
    assert len(found["links"]) == len(BUS) * len(links.WORLDS)
    for link in found["links"]:
        assert [at["bytes"] for at in link["curve"]] == sweep.sizes()
        assert link["latency"] > 0
        assert link["bandwidth"] > 0
    assert result.with_suffix(".md").read_text() == tables(found)


FOUND = json.loads(links.RESULT.read_text())
LINKS = {(link["op"], link["ranks"]): link for link in FOUND["links"]}


def test_the_committed_result_is_fitted_and_shown() -> None:
    """The latencies and bandwidths on the page are the fit of the recorded
    times, and the table is made from the recorded file, which names a clean
    revision."""
    assert LINKS.keys() == {(op, n) for op in BUS for n in links.WORLDS}
    for (op, world), link in LINKS.items():
        took = {at["bytes"]: at["seconds"] for at in link["curve"]}
        assert [*took] == SIZES
        of_two = {key: link[key] for key in LINK}
        assert of_two == pytest.approx(fit(op, world, took))
        assert all(value > 0 for value in of_two.values())
        for at in link["curve"]:
            plan = planned(op, world, at["bytes"], **of_two)
            assert at["predicted"] == pytest.approx(plan["seconds"].value)
    assert links.RESULT.with_suffix(".md").read_text() == tables(FOUND)
    assert "dirty" not in FOUND["revision"]


def test_a_dot_is_drawn_where_its_figures_put_it() -> None:
    """18 units for each doubling of the size, 50 for ten times the time."""
    at = {"bytes": 2**12, "seconds": 1e-2, "predicted": 1e-3}
    link = {"op": "all_reduce", "ranks": 4, "curve": [at]}
    drawn = links.chart({"links": [link, link | {"op": "broadcast"}]})
    assert drawn.count("<circle") == 1
    assert '<circle cx="86" cy="100"' in drawn
    assert '<path d="M86 150"/>' in drawn


@pytest.mark.parametrize("world", links.WORLDS)
def test_the_committed_result_shows_what_the_page_says(world: int) -> None:
    """Where the model misses: scattered sums that are reduced whole, a tree
    that sends no pieces, and memory that is new at every call."""
    bandwidth = {op: LINKS[op, world]["bandwidth"] for op in BUS}
    assert bandwidth["reduce_scatter"] < 0.5 * bandwidth["all_reduce"]
    twice = LINKS["reduce_scatter", world]["latency"]
    once = LINKS["all_reduce", world]["latency"]
    assert twice / once == pytest.approx(2, rel=0.3)
    if world == 4:
        two = LINKS["broadcast", 2]["bandwidth"]
        assert bandwidth["broadcast"] < 0.7 * two
    for op in BUS:
        *_, before, largest = LINKS[op, world]["curve"]
        fresh = op in ("all_gather", "reduce_scatter")
        assert (largest["pages"] > 2**26 / 4096 / 2) is fresh
        assert before["pages"] < 100
        if fresh:
            assert largest["predicted"] < largest["seconds"]
