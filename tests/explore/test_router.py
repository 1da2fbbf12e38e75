"""The picture of a router beside a router that is run, and the planner."""

from typing import Any

import pytest
import torch
from torch import Tensor

from lockstep.explore import router
from lockstep.explore.settings import read
from lockstep.parallel.expert_parallel import Routing, route
from lockstep.parallel.routing import nudge
from lockstep.planner.figures import plain
from lockstep.planner.layout import WHITEBOARD
from lockstep.planner.questions import ask
from lockstep.trainer.process import joined
from tests import ranks
from tests.conftest import daily

TOKENS = 20_000


def values(text: str) -> dict[str, Any]:
    """All settings, some of them changed."""
    return read(router.SETTINGS, text)


def routed(given: dict[str, Any], bias: Tensor, seed: int) -> Routing:
    """Tokens whose logits are preference, bias and a draw from Gumbel's
    distribution, through the router of the labs."""
    chance = torch.Generator().manual_seed(seed)
    wanted = torch.tensor(
        router.preferences(given["experts"], given["skew"]),
        dtype=torch.float64,
    )
    drawn = torch.rand(
        TOKENS, given["experts"], generator=chance, dtype=torch.float64
    )
    gumbel = -(-drawn.log()).log()
    even = given["k"] * TOKENS / given["experts"]
    places = given["capacity"] / 100 * even or TOKENS
    return route(wanted + bias + gumbel, given["k"], int(places))


def shares(routing: Routing) -> Tensor:
    """Each expert's load, in even shares."""
    return routing.load / routing.load.double().mean()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "skew:32",
        "skew:32,k:1",
        "experts:16",
        "experts:16,skew:2,k:1",
        "capacity:100",
        "capacity:125,k:1",
        "skew:32,experts:16,capacity:200",
    ],
)
def test_loads_and_drops_are_those_of_a_router_that_is_run(text: str) -> None:
    """20,000 tokens whose logits are the picture's preferences and a draw are
    routed: each expert gets the load, and the layer drops the share, that the
    picture says, within what chance allows."""
    given = values(text)
    layer = router.Layer(given)
    routing = routed(given, torch.zeros(given["experts"]), 0)
    found = shares(routing)
    expected = torch.tensor(layer.loads).double()
    # A count's deviation is at most its root; four of them.
    even = TOKENS * given["k"] / given["experts"]
    allowed = 4 * (expected / even).sqrt()
    assert ((found - expected).abs() < allowed).all()
    dropped = float(routing.dropped) / (TOKENS * given["k"])
    assert dropped == pytest.approx(layer.dropped(), abs=0.01)


def evened(given: dict[str, Any]) -> list[float]:
    """Loads after a bias has been moved by what tokens really chose."""
    with joined(30, ranks.store()):
        bias = torch.zeros(given["experts"], dtype=torch.float64)
        for seed in range(given["steps"]):
            load = routed(given, bias, seed).load
            nudge(bias, load, router.SPEED, None)
        return shares(routed(given, bias, given["steps"])).tolist()


@pytest.mark.parametrize(
    "text", daily([f"steps:{n}" for n in (10, 30, 100)], "steps:10", "steps:30")
)
def test_a_bias_evens_a_router_that_is_run(text: str) -> None:
    """A bias that follows what 20,000 tokens chose in each of ten to a hundred
    steps leaves the loads that the picture draws after as many."""
    given = values(text)
    found = torch.tensor(ranks.run_ranks(1, evened, given)[0])
    expected = torch.tensor(router.Layer(given).loads).double()
    # Four deviations of a count, and a step that chance took the other way.
    assert (found - expected).abs().max() < 4 * 5000**-0.5 + 0.02


def test_the_slowest_rank_is_the_one_with_the_hottest_experts() -> None:
    """With eight experts on four ranks, a rank computes the mean of its two
    experts' loads and waits until the slowest is done; with a capacity every
    rank computes all places, so that none waits."""
    text = "ranks:4"
    layer = router.Layer(values(text))
    pairs = [sum(layer.loads[at : at + 2]) / 2 for at in range(0, 8, 2)]
    assert layer.ranks == pytest.approx(pairs)
    assert layer.slowest == max(pairs)
    rows = router.draw(values(text)).panels[1].rows
    for (_, bars), load in zip(rows, pairs, strict=True):
        assert bars[0][1] == pytest.approx(load)
        assert bars[-1][1] == pytest.approx(max(pairs))
    full = router.Layer(values("capacity:125"))
    assert full.slowest == 1.25
    assert router.Layer(values("skew:1,capacity:125")).slowest == 1.25
    kinds = router.draw(values("capacity:125")).kinds()
    assert "waiting" not in kinds
    assert {"dropped", "empty"} <= set(kinds)


def test_bias_closes_a_gap_by_two_speeds_a_step() -> None:
    """A hottest expert that is preferred eight times to the coldest is log 8
    ahead. At 0.01 a step it comes down and the coldest goes up, so the two
    meet after 104 steps: after 60 the hottest has 1.42 even shares, after 100
    1.03, and after 200 1.01."""
    gap = router.preferences(8, 8)[0]
    assert round(gap / (2 * router.SPEED)) == 104

    def hottest(text: str) -> float:
        return round(max(router.Layer(values(text)).loads), 2)

    assert hottest("") == 2.08
    assert hottest("steps:60") == 1.42
    assert hottest("steps:100") == 1.03
    assert hottest("steps:200") == 1.01


def test_capacity_trades_dropped_tokens_for_empty_places() -> None:
    """For the skewed router of the picture: places for an even share drop 25 %
    and leave 25 % empty, 1.25 shares drop 15.7 % and leave 32.6 % empty, two
    shares drop 1 % and leave 50.5 % empty."""
    found = {}
    for percent in (100, 125, 200):
        layer = router.Layer(values(f"capacity:{percent}"))
        found[percent] = (
            round(100 * layer.dropped(), 1),
            round(100 * layer.empty(), 1),
        )
    assert found == {100: (25.1, 25.1), 125: (15.7, 32.6), 200: (1.0, 50.5)}


def test_a_step_is_the_planners_and_the_experts_part_is_longer() -> None:
    """With balanced experts a step takes what `lockstep plan run` says of
    Mixtral 8x7B on H200s, 2.57 s. With twice the load on one rank, the experts'
    share of the computing and all that all-to-alls take is there twice."""
    asked = {"preset": "mixtral-8x7b", "gpus": 64, "sequence": 8192}
    asked |= {"global_batch": 128, "ep": 8, "zero_stage": 1}
    plan = ask("run", WHITEBOARD | asked | {"hardware": "h200"})
    balanced, takes = router.step(values(""), 1)
    assert balanced == takes == plain(plan["step_seconds"])
    assert round(balanced, 2) == 2.57
    # Two of eight experts; three matrices of 4,096 by 14,336 in 32 layers.
    active = 2 * 3 * 4096 * 14336 * 32
    operations = 6 * active * 128 * 8192
    experts = operations / (64 * 989e12 * 0.6)
    _, twice = router.step(values(""), 2)
    waits = experts + plain(plan["layer_seconds"])
    assert twice == pytest.approx(balanced + waits)


def test_what_it_says_is_what_it_draws() -> None:
    """The loads, drops and seconds in words are those of the bars and of the
    numbers beside them."""
    for text in ("", "capacity:125", "steps:100"):
        scene = router.draw(values(text))
        said = dict(scene.numbers)
        bars = [bars for _, bars in scene.panels[0].rows]
        ends = [
            max(end for _, end, kind, _ in row if kind != "empty")
            for row in bars
        ]
        assert said["hottest expert"] == router.times(max(ends))
        assert said["hottest expert"] in scene.told
        assert said["a step of Mixtral's layers"] in scene.told
        if "capacity" in text:
            assert said["dropped"] in scene.told
            assert said["empty places"] in scene.told
