"""Routers beside the plain formulas, and experts without a capacity beside a
loop over them."""

from math import comb, log
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from lockstep.parallel.expert_parallel import route
from lockstep.parallel.routing import (
    choose,
    dropless,
    limited,
    nudge,
    z_loss,
)
from lockstep.trainer.process import joined
from tests import ranks


def drawn(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


# Weights


def test_softmax_before_or_after_choosing_gives_the_same_weights() -> None:
    """A softmax over all experts whose chosen probabilities are scaled to 1,
    and a softmax over the chosen logits alone, are the same weights."""
    logits = drawn(0, 50, 8)
    before = route(logits, 2, 50)
    after = logits.topk(2)
    assert torch.equal(before.experts, after.indices)
    assert torch.allclose(before.weights, after.values.softmax(1))


def test_the_weights_of_the_pages_example() -> None:
    """Logits of 2, 1, 0.5 and -1 have softmaxes of 0.609, 0.224, 0.136 and
    0.030. The best two are weighted 0.731 and 0.269. Their sigmoids, 0.881 and
    0.731, scaled to 1, are 0.546 and 0.454."""
    logits = torch.tensor([[2.0, 1.0, 0.5, -1.0]])

    def said(x: Tensor) -> list[float]:
        return [round(one, 3) for one in x.flatten().tolist()]

    assert said(logits.softmax(1)) == [0.609, 0.224, 0.136, 0.03]
    assert said(route(logits, 2, 1).weights) == [0.731, 0.269]
    assert said(logits.sigmoid())[:2] == [0.881, 0.731]
    weights, _ = choose(logits.sigmoid(), torch.zeros(4), 2)
    assert said(weights) == [0.546, 0.454]


def test_a_single_weight_scaled_to_one_teaches_the_router_nothing() -> None:
    """With one expert per token, a weight that is scaled to 1 is a constant:
    the router's gradient is zero. Left as it is, it has one."""
    logits = drawn(1, 20, 4).requires_grad_()
    alone = logits.softmax(1).max(1).values
    (alone / alone).sum().backward()
    assert logits.grad is not None
    assert not logits.grad.any()
    for weights in (
        route(logits, 1, 20).weights,
        choose(logits.softmax(1), torch.zeros(4), 1)[0],
    ):
        (gradient,) = torch.autograd.grad(weights.sum(), logits)
        assert gradient.norm() > 0.1


# Balance by a bias


def test_a_bias_says_who_is_chosen_and_not_with_what_weight() -> None:
    """A bias of 1 makes every token choose the last expert. The weights are
    still those of the scores, and no gradient reaches the bias."""
    logits = drawn(2, 30, 4).requires_grad_()
    scores = logits.sigmoid()
    bias = torch.tensor([0.0, 0.0, 0.0, 1.0])
    weights, experts = choose(scores, bias, 2)
    assert (experts == 3).any(1).all()
    chosen = scores.gather(1, experts)
    assert torch.equal(weights, chosen / chosen.sum(1, keepdim=True))
    assert weights.requires_grad
    assert not bias.requires_grad


def nudged() -> list[float]:
    """Rank 0's tokens prefer expert 0, rank 1's expert 1, and there are more
    of the latter."""
    with joined(30, ranks.store()) as me:
        bias = torch.zeros(2)
        mine = torch.tensor([[3, 1], [0, 4]][me.rank])
        nudge(bias, mine, 0.1, None)
        assert mine.tolist() == [[3, 1], [0, 4]][me.rank]
        return bias.tolist()


def test_a_nudge_counts_the_tokens_of_all_ranks() -> None:
    """Rank 0 alone would push expert 0 down. Of both ranks' tokens it has
    three of eight, fewer than an even share, so both ranks lift it."""
    for bias in ranks.run_ranks(2, nudged):
        assert bias == pytest.approx([0.1, -0.1])


def test_the_bias_moves_a_margin_by_two_speeds_a_step() -> None:
    """Tokens prefer the first of two experts by a score of about 0.2. At 0.001
    a step its bias falls and the other's rises, and after 100 steps half of
    the tokens have changed over."""
    margin = 0.2 + 0.02 * drawn(3, 1000)
    scores = torch.stack([0.5 + margin / 2, 0.5 - margin / 2], 1)
    bias = torch.zeros(2)
    steps = 0
    load = torch.tensor([1000, 0])
    while load[1] < 500 and steps < 200:
        load = choose(scores, bias, 1)[1].flatten().bincount(minlength=2)
        bias += 0.001 * (load.double().mean() - load).sign()
        steps += 1
    assert abs(steps - 100) <= 2


# The z-loss


def test_the_z_loss_sees_what_a_softmax_does_not() -> None:
    """Ten added to all logits of a token changes no probability. The z-loss
    rises, and its gradient pulls all of them down."""
    logits = drawn(4, 6, 8).requires_grad_()
    far = (logits + 10).detach().requires_grad_()
    assert torch.allclose(logits.softmax(1), far.softmax(1), atol=1e-6)
    with torch.no_grad():
        assert z_loss(far) > 20 * z_loss(logits)
    z_loss(far).backward()
    assert far.grad is not None
    assert (far.grad > 0).all()


# Nodes

EXPERTS, NODES, K, MOST = 256, 8, 8, 4  # DeepSeek-V3's


def crossing(experts: Tensor) -> tuple[float, float]:
    """Of a token on the first node: chosen experts on other nodes, and how
    many other nodes those are, in the mean."""
    nodes = experts // (EXPERTS // NODES)
    visited = F.one_hot(nodes, NODES).amax(1)[:, 1:].sum(1)
    return float((nodes > 0).sum(1).double().mean()), float(
        visited.double().mean()
    )


def test_a_limit_on_nodes_halves_the_rows_that_cross() -> None:
    """Eight of 256 experts, chosen at random, on eight nodes: 7 rows leave a
    token's node, 4.6 if each other node gets one, 3.5 if a token may go to
    four nodes. So says the arithmetic, and so do 20,000 tokens."""
    scores = torch.rand(
        20_000, EXPERTS, generator=torch.Generator().manual_seed(5)
    )
    free = scores.topk(K).indices
    rows, nodes = crossing(free)
    there = EXPERTS - EXPERTS // NODES
    exactly = (NODES - 1) * (1 - comb(there, K) / comb(EXPERTS, K))
    assert rows == pytest.approx(K * (NODES - 1) / NODES, abs=0.02)
    assert nodes == pytest.approx(exactly, abs=0.02)
    few = limited(scores, NODES, MOST, K).topk(K).indices
    assert (F.one_hot(few // 32, NODES).amax(1).sum(1) <= MOST).all()
    _, halved = crossing(few)
    # Sometimes the eight best lie on three of the four nodes.
    most = MOST * (NODES - 1) / NODES
    assert most - 0.1 < halved < most
    assert [round(one, 1) for one in (rows, exactly, halved)] == [7, 4.6, 3.5]


def test_a_limit_takes_the_nodes_with_the_best_experts() -> None:
    """Of two nodes with two experts each, one of which a token may go to, it
    goes to the one whose two best scores have the greater sum, although the
    best of all is on the other."""
    scores = torch.tensor([[0.9, 0.1, 0.6, 0.5]])
    assert limited(scores, 2, 1, 2).topk(2).indices.tolist() == [[2, 3]]
    assert limited(scores, 2, 2, 2).topk(2).indices.tolist() == [[0, 2]]


# Without a capacity


def test_grouped_products_are_a_loop_over_experts() -> None:
    """Two grouped products over all experts give the outputs and gradients of
    a loop that calls each expert on its tokens, one of them on none."""
    up = drawn(6, 4, 8, 4).requires_grad_()
    down = drawn(7, 4, 4, 8).requires_grad_()
    x, target = drawn(8, 12, 8), drawn(9, 12, 8)
    logits = drawn(10, 12, 4)
    logits[:, 2] = -9  # nobody's choice
    weights, experts = choose(logits.softmax(1), torch.zeros(4), 2)

    def gradients(output: Tensor) -> list[Tensor]:
        loss = (output * target).sum()
        return [output, *torch.autograd.grad(loss, [up, down])]

    loop = torch.zeros_like(x)
    for token in range(12):
        for choice in range(2):
            e = int(experts[token, choice])
            made = F.gelu(x[token] @ up[e]) @ down[e]
            loop[token] = loop[token] + weights[token, choice] * made
    found = gradients(dropless(x, weights, experts, up, down))
    for one, other in zip(found, gradients(loop), strict=True):
        assert torch.allclose(one, other, atol=1e-5)  # in another order
    assert not found[1][2].any()


def test_a_dropless_layer_on_one_gpu_compiles_as_one_graph() -> None:
    """`torch.compile(fullgraph=True)` takes the dropless layer, and every size
    in its graph is a number. The graph of one batch serves the next, whose
    tokens choose other experts: on one GPU no shape depends on the choices."""
    up, down = drawn(20, 4, 16, 8).bfloat16(), drawn(21, 4, 8, 16).bfloat16()
    x = drawn(22, 12, 16).bfloat16()
    graphs: list[torch.fx.GraphModule] = []

    def kept(graph: torch.fx.GraphModule, example: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    whole = torch.compile(dropless, fullgraph=True, backend=kept)
    for seed in 23, 24:
        logits = drawn(seed, 12, 4)
        weights, experts = choose(logits.softmax(1), torch.zeros(4), 2)
        given = x, weights.bfloat16(), experts, up, down
        assert torch.equal(whole(*given), dropless(*given))
    (graph,) = graphs
    made = [node.meta.get("example_value") for node in graph.graph.nodes]
    tensors = [one for one in made if isinstance(one, Tensor)]
    assert len(tensors) > 10
    assert all(type(size) is int for one in tensors for size in one.shape)


def test_a_token_is_dropped_for_its_neighbors() -> None:
    """Two experts with room for two: a token alone keeps its expert. Behind
    two others that want the same one it is dropped. Without a capacity its
    output is the same in either batch."""
    alone = torch.tensor([[2.0, 0.0]])
    batch = alone.repeat(3, 1)
    assert bool(route(alone, 1, 2).kept.all())
    assert route(batch, 1, 2).kept.flatten().tolist() == [True, True, False]
    up, down, x = drawn(11, 2, 4, 8), drawn(12, 2, 8, 4), drawn(13, 3, 4)

    def last(tokens: int) -> Tensor:
        chosen = choose(batch[-tokens:].softmax(1), torch.zeros(2), 1)
        return dropless(x[-tokens:], *chosen, up, down)[-1]

    assert torch.allclose(last(1), last(3))


def test_a_later_token_pushes_out_an_earlier_ones_second_choice() -> None:
    """All first choices are served before any second one. So whether the first
    token of a sequence keeps its second expert depends on tokens behind it,
    which a causal model must not see."""
    first = torch.tensor([3.0, 2.0, 0.0, 0.0])
    other = torch.tensor([0.0, 0.0, 3.0, 2.0])
    wants = torch.tensor([0.0, 3.0, 2.0, 0.0])
    before = route(torch.stack([first, other]), 2, 1)
    after = route(torch.stack([first, wants]), 2, 1)
    assert before.kept[0].tolist() == [True, True]
    assert after.kept[0].tolist() == [True, False]


# Chance


def peak(experts: int, mean: int) -> float:
    """The hottest expert's load over the mean, if every choice is at random."""
    choices = experts * mean
    chance = torch.Generator().manual_seed(14)
    found: list[Any] = []
    for _ in range(20):
        lots = torch.randint(experts, (choices,), generator=chance)
        found.append(float(lots.bincount(minlength=experts).max()) / mean)
    return sum(found) / len(found)


def test_an_even_router_has_a_hottest_expert_by_chance() -> None:
    """If every choice is at random, the hottest of E experts with a mean of m
    choices has at most about 1 + √(2 ln E / m) of the mean. For 256 experts
    that is 1.29 with 128 choices each and 1.04 with 8,192; for eight with
    2,048, 1.05. Drawn, it is a little less."""
    for experts, mean, rounded in (
        (256, 128, 1.29),
        (256, 8192, 1.04),
        (8, 2048, 1.05),
    ):
        rule = 1 + (2 * log(experts) / mean) ** 0.5
        assert round(rule, 2) == rounded
        assert 0.6 * (rule - 1) < peak(experts, mean) - 1 < 1.05 * (rule - 1)
