"""A mixture of experts whose experts live on different ranks.

A token chooses k experts. Its row travels to the ranks that own them, and what
they make of it travels back, by one all-to-all each way.
"""

from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from lockstep.parallel.collectives import Group, place


class Routing(NamedTuple):
    """Which experts each of this rank's tokens chose, and which had room."""

    weights: Tensor  # (tokens, k), of an expert's output in the token's
    experts: Tensor  # (tokens, k), int64, the most probable first
    slots: Tensor  # (tokens, k), int64: choices of that expert before this one
    load: Tensor  # (experts,), int64: choices of each, dropped ones as well
    capacity: int  # choices of one expert that a rank keeps

    @property
    def kept(self) -> Tensor:
        """(tokens, k), bool: choices for which the expert has room."""
        return self.slots < self.capacity

    @property
    def dropped(self) -> Tensor:
        """(), int64: choices for which it has none."""
        return (~self.kept).sum()


# --8<-- [start:route]
def route(logits: Tensor, k: int, capacity: int) -> Routing:
    """Each token's k most probable experts, while they have room.

    An expert serves all first choices before any second one, each by the
    token's position (Lepikhin et al. 2021, algorithm 1). A choice that is
    dropped keeps its weight, and its token's other weights stay as they were.

    Args:
        logits: (tokens, experts), of this rank's tokens.
        k: experts per token. Their softmax probabilities, scaled to add up to
            1, are the weights. A single one keeps its probability (Fedus et al.
            2022, 2.1): the constant 1 would give the router no gradient.
        capacity: choices that one expert takes from one rank.
    """
    weights, experts = logits.softmax(-1).topk(k)
    if k > 1:
        weights = weights / weights.sum(-1, keepdim=True)
    in_turn = experts.T.flatten()  # all first choices, all second ones, …
    chosen = F.one_hot(in_turn, logits.shape[-1])
    before = chosen.cumsum(0) - chosen  # choices of each expert until here
    slots = before.gather(1, in_turn.unsqueeze(1)).view_as(experts.T).T
    return Routing(weights, experts, slots, chosen.sum(0), capacity)


# --8<-- [end:route]
# --8<-- [start:balance]
def load_balancing_loss(
    logits: Tensor, experts: Tensor, group: Group = None
) -> Tensor:
    """Return this rank's share of the auxiliary loss. All shares add up to the
    loss of the group's tokens taken together: 1 when they are evenly spread.

    For n experts, n · Σ fᵢ Pᵢ: expert i's fraction of all choices, dropped ones
    as well, times its mean probability (Fedus et al. 2022, 2.2).

    Args:
        logits: (tokens, experts), of this rank's tokens.
        experts: (tokens, k), int64, what they chose.

    Returns:
        (), and the shares' gradients for `logits` add up to the loss's.
    """
    # Only P has a gradient, so a rank needs nothing of the others but counts.
    n, k = logits.shape[-1], experts.shape[-1]
    load = F.one_hot(experts, n).sum((0, 1))
    dist.all_reduce(load, group=group)
    choices = load.sum()
    fraction = load.to(logits.dtype) / choices
    probability = logits.softmax(-1).sum(0) / (choices / k)
    return n * (fraction * probability).sum()


# --8<-- [end:balance]
# --8<-- [start:all_to_all]
class AllToAll(torch.autograd.Function):
    """Send `gives[r]` rows to rank r and take `takes[r]` of its. Gradients go
    the way back: the same, with the two exchanged."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, gives: list[int], takes: list[int], group: Group
    ) -> Tensor:
        """(sum of gives, …) in, (sum of takes, …) out, in order of ranks."""
        ctx.back = takes, gives, group
        arrived = rows.new_empty(sum(takes), *rows.shape[1:])
        rows = rows.contiguous()
        dist.all_to_all_single(arrived, rows, takes, gives, group=group)
        return arrived

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        """To whom the rows came from."""
        return AllToAll.apply(gradient, *ctx.back), None, None, None


# --8<-- [end:all_to_all]
# --8<-- [start:dispatch]
class Trip(NamedTuple):
    """What `combine` has to know to bring rows home."""

    routing: Routing
    choices: Tensor  # (rows sent,), int64: numbers of kept ones in (tokens, k)
    gives: list[int]  # rows to each rank
    takes: list[int]  # rows from each rank
    order: Tensor  # (rows taken,), int64: sorts what came by rank by expert
    group: Group


def dispatch(
    x: Tensor, routing: Routing, group: Group = None
) -> tuple[list[Tensor], Trip]:
    """Send each token's row to its experts, if they have room; take the rows
    for ours.

    Args:
        x: (tokens, hidden), of this rank.
        routing: of these tokens, with one capacity on all ranks.

    Returns:
        For each expert of this rank (rows, hidden), the rows of all ranks'
        tokens that it has room for; and what `combine` needs.
    """
    _, ranks = place(group)
    keys = routing.experts * routing.capacity + routing.slots
    choices = routing.kept.flatten().nonzero().squeeze(1)
    choices = choices[keys.flatten()[choices].argsort()]  # by expert and slot
    mine = routing.load.clamp(max=routing.capacity).view(ranks, -1)
    theirs = torch.empty_like(mine)  # [r, e]: from rank r for our e-th expert
    dist.all_to_all_single(theirs, mine, group=group)
    gives, takes = mine.sum(1).tolist(), theirs.sum(1).tolist()
    tokens = choices // routing.experts.shape[1]
    arrived = AllToAll.apply(x[tokens], gives, takes, group)
    # Rows come by rank, and by expert within. An expert wants all of its own.
    own = torch.arange(theirs.shape[1], device=x.device).repeat(ranks)
    order = own.repeat_interleave(theirs.flatten()).argsort(stable=True)
    rows = arrived[order].split(theirs.sum(0).tolist())
    return list(rows), Trip(routing, choices, gives, takes, order, group)


# --8<-- [end:dispatch]
# --8<-- [start:combine]
def combine(outputs: list[Tensor], trip: Trip) -> Tensor:
    """Bring rows home, and add up each token's with its weights.

    Args:
        outputs: for each expert of this rank (rows, hidden), in the order in
            which `dispatch` gave the rows.

    Returns:
        (tokens, hidden); zeros for a token none of whose experts had room.
    """
    by_rank = torch.cat(outputs)[trip.order.argsort()]
    home = AllToAll.apply(by_rank, trip.takes, trip.gives, trip.group)
    weights = trip.routing.weights.unsqueeze(-1).to(home.dtype)
    tokens, k, _ = weights.shape
    spread = home.new_zeros(tokens * k, home.shape[1])
    spread = spread.index_copy(0, trip.choices, home)
    return (weights * spread.view(tokens, k, home.shape[1])).sum(1)


# --8<-- [end:combine]
# --8<-- [start:layer]
class ExpertParallel(nn.Module):
    """A layer of experts; rank r of the group owns the r-th part of them.

    Gradients: of an expert they are complete, the sum over all ranks' tokens,
    since these came to it, and zero if it had none. Of the router they are of
    this rank's tokens, and data parallelism has yet to add them up. None of
    them is a mean.

    Args:
        router: (tokens, hidden) → (tokens, experts), alike on all ranks.
        experts: all of them, on every rank alike; each treats a row alone.
            Parameters are named by an expert's number in this list.
        k: experts per token.
        capacity: choices that one expert takes from one rank; alike on all.

    Raises:
        ValueError: the group's ranks do not divide the experts.
    """

    def __init__(
        self,
        router: nn.Module,
        experts: list[nn.Module],
        k: int,
        capacity: int,
        group: Group = None,
    ) -> None:
        super().__init__()
        rank, ranks = place(group)
        each, rest = divmod(len(experts), ranks)
        if rest:
            raise ValueError(f"{len(experts)} experts on {ranks} ranks")
        own = range(rank * each, (rank + 1) * each)
        self.router = router
        self.experts = nn.ModuleDict({str(i): experts[i] for i in own})
        self.k, self.capacity, self.group = k, capacity, group

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Every rank calls it, whether it has tokens or not.

        Args:
            x: (tokens, hidden), of this rank.

        Returns:
            The output, (tokens, hidden); this rank's share of the auxiliary
            loss; and how many choices were dropped on all ranks, int64.
        """
        logits = self.router(x)
        routing = route(logits, self.k, self.capacity)
        rows, trip = dispatch(x, routing, self.group)
        # An expert without rows is called too: its gradient is zero, not None.
        outputs = [
            expert(its)
            for expert, its in zip(self.experts.values(), rows, strict=True)
        ]
        loss = load_balancing_loss(logits, routing.experts, self.group)
        dropped = routing.dropped
        dist.all_reduce(dropped, group=self.group)
        return combine(outputs, trip), loss, dropped


# --8<-- [end:layer]
