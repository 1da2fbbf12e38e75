"""Experts on other ranks beside a loop over tokens that has all experts, and
the way to them beside torch's own differentiable all-to-all."""

from copy import deepcopy
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from lockstep.experiments.demos import bytes_on_wire
from lockstep.parallel.expert_parallel import (
    AllToAll,
    ExpertParallel,
    combine,
    dispatch,
    load_balancing_loss,
    route,
)
from lockstep.planner.communication import communication
from lockstep.trainer.process import joined
from tests import ranks
from tests.conftest import daily

EXPERTS, HIDDEN = 6, 5
TOKENS = 7, 0, 4  # of each rank; with capacity k, rank 0 has to drop some


def drawn(seed: int, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def model() -> tuple[nn.Module, list[nn.Module]]:
    torch.manual_seed(3)
    experts = [nn.Linear(HIDDEN, HIDDEN).double() for _ in range(EXPERTS)]
    return nn.Linear(HIDDEN, EXPERTS).double(), experts


def chosen(logits: Tensor, k: int) -> tuple[list[tuple[int, int, int]], int]:
    """(token, choice, expert) of those with room, and how many have none."""
    experts = logits.argsort(-1, descending=True).tolist()
    free, kept = [k] * EXPERTS, []
    for choice in range(k):
        for token, its in enumerate(experts):
            expert = its[choice]
            if free[expert]:
                free[expert] -= 1
                kept.append((token, choice, expert))
    return kept, k * len(logits) - len(kept)


def by_a_loop(
    x: Tensor, router: nn.Module, experts: list[nn.Module], k: int
) -> tuple[Tensor, int]:
    logits = router(x)
    kept, dropped = chosen(logits, k)
    rows = [x.new_zeros(HIDDEN) for _ in x]
    for token, _, expert in kept:
        probabilities = logits[token].softmax(-1)
        scale = probabilities.topk(k).values.sum() if k > 1 else 1
        weight = probabilities[expert] / scale
        rows[token] = rows[token] + weight * experts[expert](x[token])
    return torch.stack(rows) if rows else x, dropped


def gradients(module: nn.Module) -> list[Any]:
    return [
        None if one.grad is None else one.grad.tolist()
        for one in module.parameters()
    ]


def trained(k: int, alone: bool) -> dict[str, Any]:
    """Outputs and gradients of one step, whose loss is a sum over tokens."""
    with joined(30, ranks.store()) as me:
        sizes = TOKENS[: me.world_size]
        inputs = [
            drawn(r, size, HIDDEN).requires_grad_()
            for r, size in enumerate(sizes)
        ]
        targets = [drawn(9 + r, *one.shape) for r, one in enumerate(inputs)]
        router, experts = model()
        x = inputs[me.rank]
        every = range(EXPERTS)
        own = [e for e in every if e * me.world_size // EXPERTS == me.rank]
        if alone:
            found = [by_a_loop(one, router, experts, k) for one in inputs]
            for (output, _), target in zip(found, targets, strict=True):
                (output * target).sum().backward()
            output, dropped = found[me.rank][0], sum(n for _, n in found)
        else:
            layer = ExpertParallel(router, experts, k, k)
            output, _, total = layer(x)
            dropped = int(total)
            (output * targets[me.rank]).sum().backward()
            for parameter in router.parameters():
                dist.all_reduce(parameter.grad)
        return {
            "output": output.tolist(),
            "dropped": dropped,
            "x": [] if x.grad is None else x.grad.tolist(),
            "router": gradients(router),
            "experts": [gradients(experts[e]) for e in own],
        }


def close(found: Any, expected: Any) -> None:
    """Nested lists of numbers; None is a gradient of zero for a loop, which
    does not call an expert that has no token."""
    if isinstance(found, dict):
        for name in expected:
            close(found[name], expected[name])
    elif isinstance(found, list):
        if expected is None:
            assert not torch.tensor(found).any()
            return
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            close(one, other)
    else:
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    ("world", "k"), daily([(1, 2), (2, 1), (3, 2), (3, 3)], (2, 1), (3, 2))
)
def test_a_layer_is_a_loop_over_tokens(world: int, k: int) -> None:
    """The expert-parallel layer has the outputs and gradients of a plain loop
    over tokens and their experts."""
    found = ranks.run_ranks(world, trained, k, False)
    expected = ranks.run_ranks(world, trained, k, True)
    for one, other in zip(found, expected, strict=True):
        close(one, other)
    assert found[0]["dropped"] > 0


def test_slots_are_served_first_choices_first() -> None:
    for k in (1, 2, 3):
        logits = drawn(k, 20, EXPERTS)
        routing = route(logits, k, k)
        kept, dropped = chosen(logits, k)
        found = [
            (token, choice, int(routing.experts[token, choice]))
            for token, choice in routing.kept.nonzero().tolist()
        ]
        assert sorted(found) == sorted(kept)
        assert int(routing.dropped) == dropped > 0
        assert int(routing.load.sum()) == 20 * k


def exchanged(ours: bool) -> list[Any]:
    """Rows of uneven numbers, some none, and their gradients."""
    with joined(30, ranks.store()) as me:
        every = [[2, 0, 3], [0, 0, 1], [4, 1, 0]]
        gives, takes = every[me.rank], [row[me.rank] for row in every]
        rows = drawn(me.rank, sum(gives), HIDDEN).requires_grad_()
        if ours:
            arrived = AllToAll.apply(rows, gives, takes, None)
        else:
            world = dist.group.WORLD
            arrived = functional.all_to_all_single_autograd(
                rows, takes, gives, world
            )
        (arrived * drawn(5 + me.rank, *arrived.shape)).sum().backward()
        return [arrived.tolist(), rows.grad.tolist()]


def test_the_way_there_and_back_is_torchs() -> None:
    """Sending tokens to experts and back gives the rows and gradients of
    torch's functional all-to-all."""
    found = ranks.run_ranks(3, exchanged, True)
    assert found == ranks.run_ranks(3, exchanged, False)


def sent() -> int:
    """Bytes of a forward and a backward pass, by the kernel's count."""
    with joined(30, ranks.store()) as me:
        n, tokens, hidden = me.world_size, 64, 4096
        x = torch.ones(tokens, hidden, requires_grad=True)
        token = torch.arange(tokens)
        logits = torch.zeros(tokens, n)
        logits[token, token % n], logits[token, (token + 1) % n] = 2, 1
        routing = route(logits, 2, 2 * tokens // n)

        def act() -> None:
            rows, trip = dispatch(x, routing)
            combine(rows, trip).sum().backward()

        act()  # connects
        return bytes_on_wire.sent(act)


def test_bytes_are_as_planned() -> None:
    """A step's all-to-alls send the bytes that the planner says, within 0.2 %,
    by the kernel's count."""
    world = 4
    shape = dict.fromkeys(("layers", "heads", "kv_heads", "params"), 1)
    given = {"hidden": 4096, "head_dim": 4096, "sequence": 64}
    given |= {"experts": world, "experts_per_token": 2, "dense_layers": 0}
    asked = {**shape, **given, "ep": world, "bytes_activation": 4}
    planned = float(communication(asked)["expert_bytes"])
    for found in ranks.run_ranks(world, sent):
        assert found == pytest.approx(planned, rel=2e-3)


def shares() -> tuple[float, float]:
    """The loss where tokens are spread evenly, and where all go one way."""
    with joined(30, ranks.store()):
        losses = []
        for logits in (torch.eye(4) * 20, torch.eye(4)[:1].repeat(4, 1) * 20):
            share = load_balancing_loss(logits, logits.topk(1).indices)
            dist.all_reduce(share)
            losses.append(float(share))
        return losses[0], losses[1]


def test_the_loss_is_one_when_even_and_n_when_one_expert_has_all() -> None:
    """On two ranks with four experts, the auxiliary loss is 1 if tokens are
    spread evenly, and 4 if one expert gets all of them."""
    for even, crowded in ranks.run_ranks(2, shares):
        assert even == pytest.approx(1)
        assert crowded == pytest.approx(4, rel=1e-3)


def scaled() -> dict[str, float]:
    """Gradients over those of the mean over all tokens: under DDP, which has
    been told to leave the experts alone."""
    with joined(30, ranks.store()) as me:
        inputs = [drawn(r, 8, HIDDEN) for r in range(me.world_size)]
        router, experts = model()
        one_router, all_experts = deepcopy((router, experts))
        outputs = [by_a_loop(x, one_router, all_experts, 2)[0] for x in inputs]
        torch.cat(outputs).mean().backward()

        layer = ExpertParallel(router, experts, 2, 2)
        names = [name for name, _ in layer.named_parameters()]
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(
            layer, [name for name in names if name.startswith("experts.")]
        )
        wrapped = DistributedDataParallel(layer)
        wrapped(inputs[me.rank])[0].mean().backward()
        number, own = next(iter(layer.experts.items()))
        expected = all_experts[int(number)].weight.grad

        def ratio(found: Tensor, right: Tensor) -> float:
            by = float(found.norm() / right.norm())
            assert torch.allclose(found, by * right)
            return by

        return {
            "router": ratio(router.weight.grad, one_router.weight.grad),
            "experts": ratio(own.weight.grad, expected),
        }


def test_ddp_takes_a_mean_and_an_expert_has_a_sum() -> None:
    """On two ranks the router's gradient, averaged by DDP, is right, and the
    experts' gradients are twice too large."""
    for found in ranks.run_ranks(2, scaled):
        assert found == pytest.approx({"router": 1, "experts": 2})


def names() -> list[str]:
    with joined(30, ranks.store()):
        layer = ExpertParallel(*model(), 2, 2)
        return list(layer.experts.state_dict())


def test_a_checkpoint_names_experts_by_their_number() -> None:
    first, second = ranks.run_ranks(2, names)
    assert first[0] == "0.weight"
    assert second[0] == "3.weight"
    assert not set(first) & set(second)


def refused() -> None:
    with joined(30, ranks.store()):
        ExpertParallel(nn.Linear(HIDDEN, 3), [nn.Identity()] * 3, 1, 1)


def test_ranks_that_do_not_divide_the_experts_are_refused() -> None:
    with pytest.raises(ranks.RankError, match="3 experts on 2 ranks"):
        ranks.run_ranks(2, refused)
