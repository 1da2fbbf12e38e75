"""Lab 07: expert parallel.

Experts are divided over the ranks of a group: of n experts on r ranks, rank 0
owns the first n / r, rank 1 the next, and so on. Every rank has tokens of its
own, perhaps none, and calls each function together with the others.

`group` is None for all ranks, or a process group. Any collective of torch's may
be used. Rows that are added to fill a buffer must not change a result.
"""

from typing import Any, NamedTuple

import torch.distributed as dist
from torch import Tensor, nn

Group = dist.ProcessGroup | None


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


def route(logits: Tensor, k: int, capacity: int) -> Routing:
    """Each token's k most probable experts, while they have room.

    An expert serves all first choices before any second one, and so on; among
    these, tokens by their position. A choice that is dropped keeps its weight,
    and its token's other weights stay as they were.

    Args:
        logits: (tokens, experts), of this rank's tokens.
        k: experts per token. Their softmax probabilities, scaled to add up
            to 1, are the weights; with k = 1 the probability itself is.
        capacity: choices that one expert takes from one rank.
    """
    raise NotImplementedError  # TODO: who chose what, and who came first


def load_balancing_loss(
    logits: Tensor, experts: Tensor, group: Group = None
) -> Tensor:
    """This rank's share of the auxiliary loss; all shares add up to the loss
    of the group's tokens taken together.

    That is n · Σ fᵢ Pᵢ for n experts: expert i's fraction of all choices,
    dropped ones as well, times its mean probability. It is 1 when both are
    even.

    Args:
        logits: (tokens, experts), of this rank's tokens.
        experts: (tokens, k), int64, what they chose.

    Returns:
        (), with a gradient for `logits`: the sum of the shares has that of the
        loss.
    """
    raise NotImplementedError  # TODO: of everybody's tokens, not of ours alone


def dispatch(
    x: Tensor, routing: Routing, group: Group = None
) -> tuple[list[Tensor], Any]:
    """Send each token's row to its experts, if they have room.

    Args:
        x: (tokens, hidden), of this rank.
        routing: of these tokens, with one capacity on all ranks.

    Returns:
        For each expert of this rank (rows, hidden), the rows of all ranks'
        tokens that it has room for; and whatever your `combine` has to know.
    """
    raise NotImplementedError  # TODO: rows travel, and gradients find back


def combine(outputs: list[Tensor], trip: Any) -> Tensor:
    """Bring rows home, and add up each token's with its weights.

    Args:
        outputs: for each expert of this rank (rows, hidden), in the order in
            which `dispatch` gave the rows.
        trip: what `dispatch` returned beside them.

    Returns:
        (tokens, hidden); zeros for a token none of whose experts had room.
    """
    raise NotImplementedError  # TODO: the way back


class ExpertParallel(nn.Module):
    """A layer of experts, each held by the one rank that owns it.

    Gradients: of an expert they are the sum over all ranks' tokens, zero if it
    had none. Of the router they are of this rank's tokens: adding them up is
    left to data parallelism. None of them is a mean.
    """

    def __init__(
        self,
        router: nn.Module,
        experts: list[nn.Module],
        k: int,
        capacity: int,
        group: Group = None,
    ) -> None:
        """Keep the router and this rank's own experts.

        Args:
            router: (tokens, hidden) → (tokens, experts), alike on all ranks.
            experts: all of them, alike on all ranks; each treats a row alone.
            k: experts per token.
            capacity: choices that one expert takes from one rank.
        """
        super().__init__()
        raise NotImplementedError  # TODO: no parameter that another rank owns

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Every rank calls it, whether it has tokens or not.

        Args:
            x: (tokens, hidden), of this rank.

        Returns:
            The output, (tokens, hidden); this rank's share of the auxiliary
            loss; and how many choices were dropped on all ranks, int64.
        """
        raise NotImplementedError  # TODO: the parts above, on every rank
