"""Lab 07 once more, in another style: buffers of one size, filled up with
zeros, and torch's functional collectives."""

from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import Tensor, nn

Group = dist.ProcessGroup | None


class Routing(NamedTuple):
    weights: Tensor
    experts: Tensor
    slots: Tensor
    load: Tensor
    capacity: int

    @property
    def kept(self) -> Tensor:
        return self.slots < self.capacity

    @property
    def dropped(self) -> Tensor:
        return (~self.kept).sum()


def team(group: Group) -> dist.ProcessGroup:
    found = group or dist.group.WORLD
    assert found
    return found


def route(logits: Tensor, k: int, capacity: int) -> Routing:
    scores, experts = logits.topk(k)
    if k == 1:
        weights = logits.softmax(-1).gather(1, experts)
    else:
        weights = scores.softmax(-1)  # of these alone, so they add up to 1
    load = [0] * logits.shape[1]
    slots = torch.zeros_like(experts)
    for choice in range(k):
        for token, expert in enumerate(experts[:, choice].tolist()):
            slots[token, choice] = load[expert]
            load[expert] += 1
    return Routing(weights, experts, slots, torch.tensor(load), capacity)


def load_balancing_loss(
    logits: Tensor, experts: Tensor, group: Group = None
) -> Tensor:
    n = logits.shape[1]
    counts = torch.bincount(experts.flatten(), minlength=n)
    counts = torch.cat([counts, torch.tensor([len(logits)])])
    total = functional.all_reduce(counts, "sum", team(group)).tolist()
    tokens = total.pop()
    fractions = torch.tensor(total).to(logits) / sum(total)
    return n / tokens * (torch.softmax(logits, 1) @ fractions).sum()


def swap(rows: Tensor, group: Group) -> Tensor:
    return functional.all_to_all_single_autograd(rows, None, None, team(group))


def dispatch(
    x: Tensor, routing: Routing, group: Group = None
) -> tuple[list[Tensor], Any]:
    ranks, width = team(group).size(), x.shape[1]
    places = routing.experts * routing.capacity + routing.slots
    tokens, _ = routing.kept.nonzero(as_tuple=True)
    buffers = x.new_zeros(len(routing.load) * routing.capacity, width)
    buffers = buffers.index_put((places[routing.kept],), x[tokens])
    arrived = swap(buffers, group).view(ranks, -1, routing.capacity, width)
    rows = arrived.transpose(0, 1).flatten(1, 2)
    return list(rows), (routing, places, group)


def combine(outputs: list[Tensor], trip: Any) -> Tensor:
    routing, places, group = trip
    ranks, width = team(group).size(), outputs[0].shape[1]
    shape = len(outputs), ranks, routing.capacity, width
    sent = torch.stack(outputs).view(shape).transpose(0, 1).reshape(-1, width)
    home = swap(sent, group)
    weights = routing.weights * routing.kept
    total = home.new_zeros(len(weights), width)
    for choice in range(weights.shape[1]):
        place = places[:, choice].where(routing.kept[:, choice], 0)
        total = total + weights[:, choice, None] * home[place]
    return total


class ExpertParallel(nn.Module):
    def __init__(
        self,
        router: nn.Module,
        experts: list[nn.Module],
        k: int,
        capacity: int,
        group: Group = None,
    ) -> None:
        super().__init__()
        self.group = team(group)
        each = len(experts) // self.group.size()
        first = each * self.group.rank()
        self.router, self.own = router, nn.ModuleList(experts)[first:][:each]
        self.k, self.capacity = k, capacity

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, int]:
        logits = self.router(x)
        routing = route(logits, self.k, self.capacity)
        rows, trip = dispatch(x, routing, self.group)
        outputs = [one(its) for one, its in zip(self.own, rows, strict=True)]
        dropped = functional.all_reduce(routing.dropped, "sum", self.group)
        loss = load_balancing_loss(logits, routing.experts, self.group)
        return combine(outputs, trip), loss, int(dropped)
