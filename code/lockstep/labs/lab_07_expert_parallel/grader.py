"""Lab 07: what a layer of experts must hold."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from lockstep.grading.criteria import Criterion
from lockstep.instruments.traffic import Traffic
from lockstep.parallel import expert_parallel as sound
from lockstep.planner.communication import communication

HIDDEN = 3
Experts = list[nn.Module]
# A trip is known to the dispatch and combine of one answer only, so both are
# swapped at once.
reference = SimpleNamespace(
    both_ways=(sound.dispatch, sound.combine),
    ExpertParallel=sound.ExpertParallel,
)


# What a rank is given, and what comes of it where one process has everything.


def drawn(seed: int, *shape: int) -> Tensor:
    """Numbers that every rank can draw, of any rank."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def model(experts: int, hidden: int = HIDDEN) -> tuple[nn.Linear, Experts]:
    """A router and all experts, alike on all ranks."""
    torch.manual_seed(7)
    router = nn.Linear(hidden, experts).double()
    layers = [nn.Linear(hidden, hidden).double() for _ in range(experts)]
    return router, [nn.Sequential(layer, nn.Tanh()) for layer in layers]


def dense(
    x: Tensor, logits: Tensor, k: int, capacity: int, experts: Experts
) -> Tensor:
    """The output for one rank's tokens, of which each expert sees every one."""
    routing = sound.route(logits, k, capacity)
    every = torch.stack([expert(x) for expert in experts], 1)
    wide = routing.experts.unsqueeze(-1).expand(-1, -1, x.shape[1])
    weights = routing.weights * routing.kept
    return (weights.unsqueeze(-1) * every.gather(1, wide)).sum(1)


def balance(logits: Tensor, k: int) -> Tensor:
    """The auxiliary loss of all ranks' tokens together."""
    n, probabilities = logits.shape[1], logits.softmax(-1)
    chosen = F.one_hot(probabilities.topk(k).indices, n).sum(1) / k
    fraction = chosen.to(logits.dtype).mean(0)
    return n * (fraction * probabilities.mean(0)).sum()


def same(found: Tensor | None, expected: Tensor | None, what: str) -> None:
    """AssertionError, unless they are equal but for rounding."""
    assert expected is not None
    assert found is not None, f"{what} is None"
    shapes = f"{what} has shape {[*found.shape]}, not {[*expected.shape]}"
    assert found.shape == expected.shape, shapes
    close = torch.isclose(found.to(expected), expected, 1e-9, 1e-12)
    for index in (~close).nonzero().tolist():
        one, other = found[tuple(index)], expected[tuple(index)]
        at = f"[{', '.join(map(str, index))}]" if index else ""
        raise AssertionError(f"{what}{at} is {one:.4g}, not {other:.4g}")


def summed(tensor: Tensor | None, group: sound.Group = None) -> Tensor | None:
    """Over the ranks, if there is anything."""
    if tensor is None:
        return None
    total = tensor.detach().clone()
    dist.all_reduce(total, group=group)
    return total


def held(layer: nn.Module, given: nn.Module, what: str) -> Sequence[Tensor]:
    """The layer's own parameters, equal to those of what it was given."""
    own = list(layer.parameters())
    found = []
    for wanted in given.parameters():
        same_ones = [one for one in own if torch.equal(one, wanted)]
        assert same_ones, f"rank {dist.get_rank()} does not hold {what}"
        found.append(same_ones[0])
    return found


# The answer's parts, each beside sound ones.


@contextmanager
def layer_of(answer: ModuleType) -> Iterator[type[nn.Module]]:
    """The answer's class, over sound functions: one mistake costs once."""
    parts: dict[str, Any] = {
        name: getattr(sound, name)
        for name in ("load_balancing_loss", "dispatch", "combine")
    }
    parts["route"] = lambda *a, **k: answer.Routing(*sound.route(*a, **k))
    with patch.multiple(answer, create=True, **parts):
        yield answer.ExpertParallel


def through(
    answer: ModuleType,
    x: Tensor,
    logits: Tensor,
    k: int,
    capacity: int,
    experts: Experts,
    group: sound.Group = None,
) -> Tensor:
    """x to the experts and back, by the answer's dispatch and combine."""
    ours = answer.dispatch, answer.combine
    there, back = getattr(answer, "both_ways", ours)
    rank, ranks = sound.place(group)
    each = len(experts) // ranks
    routing = answer.Routing(*sound.route(logits, k, capacity))
    rows, trip = there(x, routing, group)
    told = f"dispatch returns rows of {len(rows)} experts, not of {each}"
    assert len(rows) == each, told
    own = experts[rank * each : (rank + 1) * each]
    outputs = [expert(its) for expert, its in zip(own, rows, strict=True)]
    output: Tensor = back(outputs, trip)
    return output


# The checks.


def routes(answer: ModuleType) -> None:
    """Where every expert has room."""
    for k in (2, 1, 3):
        logits, expected = (drawn(k, 5, 4).requires_grad_() for _ in range(2))
        routing = answer.route(logits, k, 5)
        weights, experts = expected.softmax(-1).topk(k)
        if k > 1:
            weights = weights / weights.sum(-1, keepdim=True)
        of = f"with k = {k},"
        same(routing.experts, experts, f"{of} experts")
        same(routing.weights, weights, f"{of} weights")
        told = f"{of} weights have no gradient"
        assert routing.weights.requires_grad, told
        for tensor in (routing.weights, weights):
            (tensor * drawn(9, 5, k)).sum().backward()
        same(logits.grad, expected.grad, f"{of} the gradient of logits")


def drops(answer: ModuleType) -> None:
    """Of five tokens on three experts with two places each."""
    first, second = [0, 0, 1, 0, 1], [1, 1, 0, 2, 2]
    none = -1  # for a choice that is dropped
    slots = [[0, none], [1, none], [0, none], [none, 0], [1, 1]]
    expected = torch.tensor(slots)
    logits = 2.0 * F.one_hot(torch.tensor(first), 3).double()
    logits += F.one_hot(torch.tensor(second), 3)
    routing = answer.route(logits, 2, 2)
    of = f"of first choices {first}, second ones {second} and capacity 2,"
    same(routing.kept, expected != none, f"{of} kept")
    same(routing.slots.where(routing.kept, none), expected, f"{of} slots")
    same(routing.load, torch.tensor([4, 4, 2]), f"{of} load")
    dropped = int(routing.dropped)
    assert dropped == 4, f"{of} {dropped} are dropped, not 4"
    weights = torch.tensor([1.0, 0.0]).double().softmax(0).expand(5, 2)
    same(routing.weights, weights, f"{of} weights")


def balances(answer: ModuleType) -> None:
    """Ranks with five tokens, none, and two."""
    rank, k, tokens = dist.get_rank(), 2, (5, 0, 2)
    parts = [drawn(r, n, 4) + r for r, n in enumerate(tokens)]
    parts = [part * torch.arange(4) for part in parts]  # some are chosen more
    whole = torch.cat(parts).requires_grad_()
    expected = balance(whole, k)
    expected.backward()
    mine = parts[rank].clone().requires_grad_()
    share = answer.load_balancing_loss(mine, mine.topk(k).indices)
    same(summed(share), expected.detach(), "the sum of the shares")
    told = f"the share of rank {rank} has no gradient"
    assert share.requires_grad, told
    share.backward()
    if tokens[rank]:
        assert whole.grad is not None
        right = whole.grad.split(tokens)[rank]
        same(mine.grad, right, f"the gradient of rank {rank}'s logits")


def travels(answer: ModuleType) -> None:
    """In a group of two of the ranks, with three experts each."""
    group = dist.new_group([1, 2])
    if dist.get_rank() == 0:
        return
    rank, _ = sound.place(group)
    tokens, k, capacity = (6, 4), 2, 2
    router, experts = model(6)
    inputs = [drawn(r, n, HIDDEN) for r, n in enumerate(tokens)]
    x, logits = inputs[rank], router(inputs[rank]).detach()
    routings = [sound.route(router(one), k, capacity) for one in inputs]
    seen: dict[int, Tensor] = {}

    def watch(number: int, rows: Tensor) -> Tensor:
        seen[number] = rows
        return experts[number](rows)

    watched: Any = [partial(watch, number) for number in range(6)]
    output = through(answer, x, logits, k, capacity, watched, group)
    for number, rows in sorted(seen.items()):
        right = {
            tuple(one[token].tolist())
            for one, to in zip(inputs, routings, strict=True)
            for token, chosen in enumerate((to.experts == number) & to.kept)
            if chosen.any()
        }
        real = rows[rows.any(1)].tolist()
        told = f"expert {number} has {len(real)} rows, not {len(right)}"
        assert len(real) == len(right), told
        told = f"expert {number} has rows of tokens that did not choose it"
        assert set(map(tuple, real)) == right, told
    expected = dense(x, logits, k, capacity, experts)
    same(output, expected, f"rank {rank}'s output")


def is_a_layer(answer: ModuleType) -> None:
    """In a group of two of the ranks: what it holds, and what it returns."""
    group = dist.new_group([1, 2])
    if dist.get_rank() == 0:
        return
    rank, _ = sound.place(group)
    tokens, k, capacity = (6, 4), 2, 2
    router, experts = model(4)
    own = experts[2 * rank : 2 * rank + 2]
    inputs = [drawn(r, n, HIDDEN) for r, n in enumerate(tokens)]
    logits = [router(one) for one in inputs]
    with layer_of(answer) as layer_type:
        layer = layer_type(*deepcopy((router, experts)), k, capacity, group)
        held(layer, router, "the router")
        for number, one in enumerate(own, 2 * rank):
            held(layer, one, f"expert {number}")
        numbers = sum(one.numel() for one in layer.parameters())
        right = sum(
            one.numel()
            for module in (router, *own)
            for one in module.parameters()
        )
        told = f"a rank with 2 of 4 experts holds {numbers} numbers"
        assert numbers == right, f"{told}, not {right}"
        output, share, dropped = layer(inputs[rank])
    expected = dense(inputs[rank], logits[rank], k, capacity, experts)
    same(output, expected, f"rank {rank}'s output")
    loss = balance(torch.cat(logits), k)
    same(summed(share, group), loss, "the sum of the shares")
    routings = [sound.route(one, k, capacity) for one in logits]
    each = [int(routing.dropped) for routing in routings]
    told = f"ranks drop {each} choices; rank {rank} says {int(dropped)}"
    assert int(dropped) == sum(each), told


@dataclass(frozen=True)
class Case:
    """Tokens of each rank, and the model that they go through."""

    inputs: list[Tensor]
    router: nn.Module
    experts: Experts
    k: int
    capacity: int

    @property
    def own(self) -> range:
        """The numbers of this rank's experts."""
        rank, ranks = sound.place(None)
        each = len(self.experts) // ranks
        return range(rank * each, (rank + 1) * each)


@dataclass(frozen=True)
class Run:
    """What came of a case on this rank; parameters have their gradients."""

    x: Tensor
    output: Tensor
    router: Sequence[Tensor]
    experts: Mapping[int, Sequence[Tensor]]  # by their numbers


def alone(case: Case) -> Run:
    """Of one process that has all tokens and all experts."""
    router, experts = deepcopy((case.router, case.experts))
    xs = [x.clone().requires_grad_() for x in case.inputs]
    logits = [router(x) for x in xs]
    outputs = [
        dense(x, its, case.k, case.capacity, experts)
        for x, its in zip(xs, logits, strict=True)
    ]
    loss = balance(torch.cat(logits), case.k)
    for rank, output in enumerate(outputs):
        loss = loss + objective(output, rank)
    loss.backward()
    rank = dist.get_rank()
    its = {i: list(expert.parameters()) for i, expert in enumerate(experts)}
    return Run(xs[rank], outputs[rank], list(router.parameters()), its)


def by_functions(answer: ModuleType, case: Case) -> Run:
    """Of the answer's dispatch and combine."""
    router, experts = deepcopy((case.router, case.experts))
    x = case.inputs[dist.get_rank()].clone().requires_grad_()
    logits = router(x)
    output = through(answer, x, logits, case.k, case.capacity, experts)
    chosen = logits.topk(case.k).indices
    loss = sound.load_balancing_loss(logits, chosen)
    (loss + objective(output, dist.get_rank())).backward()
    its = {i: list(experts[i].parameters()) for i in case.own}
    return Run(x, output, list(router.parameters()), its)


def by_layer(answer: ModuleType, case: Case) -> Run:
    """Of the answer's class."""
    x = case.inputs[dist.get_rank()].clone().requires_grad_()
    with layer_of(answer) as layer_type:
        parts = deepcopy((case.router, case.experts))
        layer = layer_type(*parts, case.k, case.capacity)
        output, loss, _ = layer(x)
        (loss + objective(output, dist.get_rank())).backward()
    its = {i: held(layer, case.experts[i], f"expert {i}") for i in case.own}
    return Run(x, output, held(layer, case.router, "the router"), its)


def objective(output: Tensor, rank: int) -> Tensor:
    """One rank's part of a loss that is a sum over all ranks' tokens."""
    return (output * drawn(100 + rank, *output.shape)).sum()


def learns(answer: ModuleType) -> None:
    """Gradients, where every expert has tokens and some are dropped."""
    case = Case([drawn(r, 8, HIDDEN) for r in range(2)], *model(4), 2, 4)
    right = alone(case)
    for run in (by_functions, by_layer):
        found = run(answer, case)
        what = f"the gradient of rank {dist.get_rank()}'s tokens"
        same(found.x.grad, right.x.grad, what)
        for number, its in found.experts.items():
            for one, other in zip(its, right.experts[number], strict=True):
                same(one.grad, other.grad, f"the gradient of expert {number}")
        for one, other in zip(found.router, right.router, strict=True):
            what = "the router's gradient, summed over ranks,"
            same(summed(one.grad), other.grad, what)


def copes(answer: ModuleType) -> None:
    """Every token chooses rank 0's two experts, and rank 1 has no tokens."""
    inputs = [drawn(r, n, HIDDEN) for r, n in enumerate((4, 0, 3))]
    router, experts = model(6)
    with torch.no_grad():
        router.bias[:2] += 50
    case = Case(inputs, router, experts, 2, 3)
    right = alone(case)
    for run in (by_functions, by_layer):
        found = run(answer, case)
        same(found.output, right.output, f"rank {dist.get_rank()}'s output")
    for number in found.experts.keys() - {0, 1}:  # those without rows
        what = f"the gradient of expert {number}, which has no rows,"
        of = found.experts[number], right.experts[number]
        for one, other in zip(*of, strict=True):
            same(one.grad, other.grad, what)


def spends(answer: ModuleType) -> None:
    """As many bytes as planned, where tokens are evenly spread and no rank has
    both of a token's experts."""
    _, ranks = sound.place(None)
    tokens, hidden, k = 8, 64, 2
    router, experts = model(ranks, hidden)
    nn.init.eye_(router.weight)
    nn.init.zeros_(router.bias)
    x = drawn(dist.get_rank(), tokens, hidden)
    x[:, :ranks] = 0
    for token in range(tokens):
        x[token, token % ranks], x[token, (token + 1) % ranks] = 2, 1
    case = Case([x] * ranks, router, experts, k, tokens * k // ranks)
    planned = float(
        communication(plan(ranks, tokens, hidden, k))["expert_bytes"]
    )
    for name, run in (
        ("dispatch and combine", by_functions),
        ("the layer", by_layer),
    ):
        with Traffic() as traffic:
            run(answer, case)
        ops = {call.op for call in traffic.calls}
        assert ops & {"all_to_all", "send"}, f"{name}: there is no all-to-all"
        # Counts travel besides: a few integers for each expert.
        told = f"{name} send {traffic.sent:.0f} bytes forward and backward"
        assert traffic.sent < 1.1 * planned, f"{told}, not {planned:.0f}"


def plan(ranks: int, tokens: int, hidden: int, k: int) -> dict[str, Any]:
    """One layer and one step in float64, as the planner is asked."""
    shape = dict.fromkeys(("layers", "heads", "kv_heads"), 1)
    experts = {"experts": ranks, "experts_per_token": k, "ep": ranks}
    return {
        **shape,
        **experts,
        "params": 0,
        "dense_layers": 0,
        "hidden": hidden,
        "head_dim": hidden,
        "sequence": tokens,
        "bytes_activation": 8,
    }


WHOLE = {"dispatch and combine": "both_ways", "layer": "ExpertParallel"}
CRITERIA = [
    Criterion(
        "routing",
        12,
        "A softmax over all experts, then the k greatest, scaled to add up"
        " to 1; but for k = 1 that would be a constant.",
        routes,
        world=1,
    ),
    Criterion(
        "capacity",
        12,
        "Count the choices of an expert in the order in which it serves them.",
        drops,
        world=1,
    ),
    Criterion(
        "auxiliary loss",
        12,
        "Fractions and means are of all ranks' tokens; a count has no"
        " gradient.",
        balances,
    ),
    Criterion(
        "dispatch and combine",
        16,
        "Rows arrive by rank, and each expert wants its own of every rank.",
        travels,
    ),
    Criterion(
        "layer",
        14,
        "A rank holds the router and its own experts, and answers for its"
        " group.",
        is_a_layer,
    ),
    Criterion(
        "backward",
        14,
        "Gradients go back by an all-to-all, and an expert's add up over all"
        " tokens.",
        learns,
        world=2,
        needs=WHOLE,
    ),
    Criterion(
        "uneven loads",
        10,
        "A rank without tokens and an expert without rows do what all others"
        " do.",
        copes,
        needs=WHOLE,
    ),
    Criterion(
        "bytes",
        10,
        "A row goes to the ranks of its experts, and to nobody else.",
        spends,
        world=4,
        needs=WHOLE,
    ),
]
