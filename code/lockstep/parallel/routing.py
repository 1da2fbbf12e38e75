"""Which experts a token goes to: balance by a bias, the router's z-loss, a
limit on nodes, and a layer in which no expert is full."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from lockstep.parallel.collectives import Group


# --8<-- [start:choose]
def choose(scores: Tensor, bias: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Each token's k experts, and the weights of their outputs.

    The bias has a say in who is chosen, and none in the weights (Wang et al.
    2024, section 3).

    Args:
        scores: (tokens, experts), above 0, in fp32: softmax or sigmoid of the
            router's logits.
        bias: (experts,), without a gradient.
        k: experts per token. Their weights add up to 1; a single one keeps its
            score, or the router would have no gradient.

    Returns:
        Weights, (tokens, k), and experts, (tokens, k), int64.
    """
    experts = (scores + bias).topk(k).indices
    weights = scores.gather(1, experts)
    if k > 1:
        weights = weights / weights.sum(1, keepdim=True)
    return weights, experts


@torch.no_grad()
def nudge(bias: Tensor, load: Tensor, speed: float, group: Group) -> None:
    """Make experts that had too much less attractive, and the others more, in
    place; once after each optimizer step (Wang et al. 2024, algorithm 1).

    Args:
        bias: (experts,), alike on all ranks, and alike afterwards.
        load: (experts,), int64: choices by this rank's tokens in this step, of
            all its micro-batches.
        speed: how far a bias moves in a step.
        group: all ranks whose tokens the layer has seen.
    """
    load = load.clone()
    dist.all_reduce(load, group=group)
    bias += speed * (load.double().mean() - load).sign()


# --8<-- [end:choose]
# --8<-- [start:z_loss]
def z_loss(logits: Tensor) -> Tensor:
    """Return the mean square of log Σ exp of each token's logits, which keeps
    them small (Zoph et al. 2022, equation 5).

    Args:
        logits: (tokens, experts), in fp32.
    """
    return logits.logsumexp(1).square().mean()


# --8<-- [end:z_loss]
# --8<-- [start:limited]
def limited(scores: Tensor, nodes: int, most: int, k: int) -> Tensor:
    """Set the scores of experts on nodes that a token may not use to -inf.

    It may go to the `most` nodes whose k / most best scores have the greatest
    sums (DeepSeek-V3 2024, 2.1.2).

    Args:
        scores: (tokens, experts), experts in order of their nodes.
        nodes: over which the experts are evenly spread.
        most: nodes per token; divides k.
        k: experts per token.
    """
    by_node = scores.unflatten(1, (nodes, -1))
    best = by_node.topk(k // most).values.sum(2)
    allowed = torch.zeros_like(best, dtype=torch.bool)
    allowed.scatter_(1, best.topk(most).indices, True)
    return by_node.masked_fill(~allowed.unsqueeze(2), -torch.inf).flatten(1)


# --8<-- [end:limited]
# --8<-- [start:dropless]
def dropless(
    x: Tensor, weights: Tensor, experts: Tensor, up: Tensor, down: Tensor
) -> Tensor:
    """Apply all chosen experts to their tokens, however many each has.

    Args:
        x: (tokens, hidden).
        weights: (tokens, k), of an expert's output in the token's.
        experts: (tokens, k), int64.
        up: (experts, hidden, inner), every expert's first matrix; its rows are
            multiples of 16 bytes, as are those of `down`.
        down: (experts, inner, hidden), every expert's second.

    Returns:
        (tokens, hidden).
    """
    flat = experts.flatten()
    order = flat.argsort(stable=True)  # choices by expert
    tokens = order // experts.shape[1]
    # Into fixed places: the size of a bincount depends on the choices.
    load = flat.new_zeros(len(up)).scatter_add(0, flat, torch.ones_like(flat))
    ends = load.cumsum(0).int()  # an expert's rows end where the next begin
    inner = F.gelu(F.grouped_mm(x[tokens], up, offs=ends))
    outputs = F.grouped_mm(inner, down, offs=ends)
    weighted = outputs * weights.flatten()[order].unsqueeze(1)
    return torch.zeros_like(x).index_add(0, tokens, weighted)


# --8<-- [end:dropless]
