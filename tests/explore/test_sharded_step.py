"""A sharded step keeps the planner's costs and FSDP2's order."""

from __future__ import annotations

from typing import Any

import pytest

from lockstep.explore.settings import read
from lockstep.explore.sharded_step import (
    ACHIEVED,
    LAYERS,
    PARAMETERS,
    RANKS,
    SETTINGS,
    Costs,
    Step,
    draw,
)
from lockstep.planner.questions import ask


def step(text: str = "") -> Step:
    """The step of these settings."""
    return Step(read(SETTINGS, text))


def bars(found: list[Any], kind: str) -> list[tuple[float, float, int]]:
    """Start, end and layer of each bar of a kind."""
    return [(a, b, int(label) - 1) for a, b, one, label in found if one == kind]


def test_its_layers_are_those_of_llama_3_70b() -> None:
    """Eighty of them, their norms, the embedding and the output layer make the
    model's 70.6 billion parameters."""
    whole = ask("params", {"preset": "llama3-70b"})
    rest = 2 * 128256 * 8192 + 161 * 8192
    assert 80 * PARAMETERS + rest == float(whole["total"])


def test_its_state_is_what_the_planner_says() -> None:
    """At each stage, the state that a rank holds throughout is the planner's
    for as many parameters on as many ranks."""
    for stage in range(4):
        planned = ask(
            "memory",
            {"params": PARAMETERS * LAYERS, "dp": RANKS, "zero_stage": stage},
        )
        held = sum(step(f"stage:{stage}").state().values())
        assert held == pytest.approx(float(planned["total_bytes"]))


def test_a_gather_hides_where_it_is_shorter_than_a_layer() -> None:
    """Gathering one layer ahead, the GPU waits in the forward pass for the
    first gather alone as long as a gather takes no longer than a layer; where
    it takes longer, each layer waits for what is left of it."""
    for text in ("", "bandwidth:46", "bandwidth:46,tokens:16384"):
        one = step(text)
        costs: Costs = one.costs
        waited = one.turned - LAYERS * costs.forward
        each = max(0.0, costs.gather - costs.forward)
        assert waited == pytest.approx(costs.gather + (LAYERS - 1) * each)


def test_the_rule_of_tokens_is_where_the_gather_begins_to_hide() -> None:
    """Tokens per micro-batch times two FLOPs over what the GPU achieves equal
    two bytes over the gather's bandwidth: within the share that attention adds,
    the model's size does not matter."""
    for bandwidth in (25, 46, 100, 365):
        tokens = ACHIEVED / (bandwidth * 1e9)
        costs = Costs(
            read(SETTINGS, f"bandwidth:{bandwidth}") | {"tokens": tokens}
        )
        assert costs.gather == pytest.approx(costs.forward, rel=0.2)


def test_without_prefetch_every_gather_is_waited_for() -> None:
    """The GPU then computes and the network sends one after the other."""
    one = step("prefetch:0")
    gathers = bars(one.network, "gather")
    assert one.turned == pytest.approx(
        LAYERS * (one.costs.gather + one.costs.forward)
    )
    for start, end, _ in bars(one.compute, "compute"):
        assert not any(
            a < end - 1e-9 and b > start + 1e-9 for a, b, _ in gathers
        )


def test_weights_are_gathered_before_they_are_used_and_freed_after() -> None:
    """Each layer's computing lies within the time for which its weights are
    held whole, forward and backward; with nothing kept, no more than two
    layers are whole at once when one is gathered ahead."""
    for text, most in (("", 2), ("prefetch:2", 3), ("reshard:0", LAYERS)):
        one = step(text)
        whole = [(a, b) for a, b, kind, _ in one.held if kind == "gathered"]
        for kind in ("compute", "backward"):
            for start, end, _ in bars(one.compute, kind):
                assert any(a < start and b >= end for a, b in whole)
        moments = [a for a, _ in whole]
        assert most == max(
            sum(a <= moment < b for a, b in whole) for moment in moments
        )


def test_keeping_the_weights_spares_the_second_gather() -> None:
    """Freed after the forward pass a layer is gathered twice a step, kept only
    once; every stage reduces each layer's gradients once, and DDP gathers
    nothing."""
    for text, times in (
        ("", 2),
        ("reshard:0", 1),
        ("stage:1", 1),
        ("stage:0", 0),
    ):
        network = step(text).network
        assert len(bars(network, "gather")) == times * LAYERS
        assert [*sorted(layer for *_, layer in bars(network, "reduce"))] == [
            *range(LAYERS)
        ]


def test_gradients_leave_in_the_order_in_which_they_are_ready() -> None:
    """Backward goes from the last layer to the first, and no gradient is sent
    before its layer is done."""
    one = step()
    done = {layer: end for _, end, layer in bars(one.compute, "backward")}
    sent = bars(one.network, "reduce")
    assert [layer for *_, layer in sent] == [*range(LAYERS)][::-1]
    assert all(start >= done[layer] for start, _, layer in sent)


def test_a_gradient_is_held_until_the_next_layer_is_done() -> None:
    """While a layer's backward pass runs, its own whole gradient is there, and
    that of the layer before, which is being reduced: FSDP2 frees the input of
    a reduce-scatter when the next layer's gradient is complete."""
    one = step()
    whole = [(a, b) for a, b, kind, _ in one.held if kind == "gradients"]
    turns = bars(one.compute, "backward")
    held = [
        sum(a <= (start + end) / 2 < b for a, b in whole)
        for start, end, _ in turns
    ]
    assert held == [1] + [2] * (LAYERS - 1)


def test_what_it_says_follows_from_what_it_draws() -> None:
    """The share of waiting, the length of the step and the peak are those of
    the bars and areas."""
    scene = draw(read(SETTINGS, "bandwidth:12"))
    lanes, areas = scene.panels
    waited = sum(
        b - a for a, b, kind, _ in lanes.rows[0][1] if kind == "waiting"
    )
    assert f"{waited / scene.end:.0%}" in scene.told
    assert f"{round(max(areas.totals()) / 1e9, 1):g} GB" in scene.told
    assert "takes longer than" in scene.told
