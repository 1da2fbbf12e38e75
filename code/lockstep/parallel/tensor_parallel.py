"""Tensor parallelism: each rank multiplies by its part of every matrix.

A block's first matrices are split by columns of the output and its last by rows
of the input, so what lies between stays on its rank (Shoeybi et al. 2019,
section 3, https://arxiv.org/abs/1909.08053). Ranks speak where a block begins
and where it ends, and nowhere else. Shapes end in (sequence, hidden).
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from lockstep.parallel.collectives import Group, place

IGNORED = -100  # a target without a loss, as F.cross_entropy has it


def share(count: int, what: str, ranks: int) -> int:
    """`count` / `ranks`. ValueError if that is no whole number."""
    if count % ranks:
        raise ValueError(f"{ranks} ranks cannot share {count} {what} evenly")
    return count // ranks


# --8<-- [start:part]
def part(full: Tensor, dim: int, what: str, group: Group) -> nn.Parameter:
    """Return this rank's part of `full`, along `dim`."""
    rank, ranks = place(group)
    mine = full.detach().split(share(full.shape[dim], what, ranks), dim)[rank]
    # A copy: a view would keep the whole weight in memory.
    return nn.Parameter(mine.clone(memory_format=torch.contiguous_format))


# --8<-- [end:part]
# --8<-- [start:conjugate]
def unchanged(x: Tensor, group: Group) -> Tensor:
    """Return `x`, which every rank has already."""
    return x.view_as(x)


def summed(x: Tensor, group: Group) -> Tensor:
    """Return the sum over ranks, on each of them."""
    total = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total, group=group)
    return total


def gathered(x: Tensor, group: Group) -> Tensor:
    """All tokens, from ranks that have 1/n of the sequence each."""
    mine = x.contiguous()
    tokens = [torch.empty_like(mine) for _ in range(place(group)[1])]
    dist.all_gather(tokens, mine, group=group)
    return torch.cat(tokens, -2)


def scattered(x: Tensor, group: Group) -> Tensor:
    """Return the sum over ranks, for this rank's tokens."""
    tokens = share(x.shape[-2], "tokens", place(group)[1])
    parts = [one.contiguous() for one in x.split(tokens, -2)]
    total = torch.empty_like(parts[0])
    dist.reduce_scatter(total, parts, group=group)
    return total


class Conjugate(torch.autograd.Function):
    """`there` with the tensor, and `back` with its gradient."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, there: Callable, back: Callable, group: Group
    ) -> Tensor:
        """Communicate `there`, and `back` for the gradient."""
        ctx.back, ctx.group = back, group
        return there(x, group)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        """Return the gradient of `x` alone."""
        return ctx.back(gradient, ctx.group), None, None, None


def enter(x: Tensor, group: Group, sequence_parallel: bool) -> Tensor:
    """Return a block's input: all tokens, on every rank."""
    if sequence_parallel:
        return Conjugate.apply(x, gathered, scattered, group)
    return Conjugate.apply(x, unchanged, summed, group)


def leave(x: Tensor, group: Group, sequence_parallel: bool) -> Tensor:
    """Return a block's output, the sum of all ranks: `enter`, reversed."""
    if sequence_parallel:
        return Conjugate.apply(x, scattered, gathered, group)
    return Conjugate.apply(x, summed, unchanged, group)


# --8<-- [end:conjugate]
# --8<-- [start:column]
class ColumnParallelLinear(nn.Module):
    """`full`, of which this rank computes 1/n of the outputs.

    (…, in) to (…, out / n); with `sequence_parallel` from (…, sequence / n, in)
    to (…, sequence, out / n). `weight` is (out / n, in), `bias` (out / n) or
    None.

    Raises:
        ValueError: n does not divide out.
    """

    def __init__(
        self,
        full: nn.Linear,
        group: Group = None,
        sequence_parallel: bool = False,
    ) -> None:
        super().__init__()
        self.weight = part(full.weight, 0, "outputs", group)
        self.bias = None
        if full.bias is not None:
            self.bias = part(full.bias, 0, "outputs", group)
        self.group, self.sequence_parallel = group, sequence_parallel

    def forward(self, x: Tensor) -> Tensor:
        return self.product(enter(x, self.group, self.sequence_parallel))

    def product(self, x: Tensor) -> Tensor:
        """Apply to an `x` that has entered the block already."""
        return F.linear(x, self.weight, self.bias)


# --8<-- [end:column]
# --8<-- [start:row]
class RowParallelLinear(nn.Module):
    """`full`, of which this rank takes 1/n of the inputs.

    (…, in / n) to (…, out), whole on every rank; with `sequence_parallel` from
    (…, sequence, in / n) to (…, sequence / n, out). `weight` is (out, in / n),
    `bias` (out) or None.

    Raises:
        ValueError: n does not divide in or, at a call, the sequence.
    """

    def __init__(
        self,
        full: nn.Linear,
        group: Group = None,
        sequence_parallel: bool = False,
    ) -> None:
        super().__init__()
        self.weight = part(full.weight, 1, "inputs", group)
        self.bias = None
        if full.bias is not None:
            self.bias = nn.Parameter(full.bias.detach().clone())
        self.group, self.sequence_parallel = group, sequence_parallel

    def forward(self, x: Tensor) -> Tensor:
        partial = F.linear(x, self.weight)
        total = leave(partial, self.group, self.sequence_parallel)
        if self.bias is None:
            return total
        bias: Tensor = self.bias
        if self.sequence_parallel:
            # Added to 1/n of the tokens, so its gradient is a sum over ranks.
            bias = enter(bias, self.group, sequence_parallel=False)
        return total + bias  # after the sum, which would have it n times


# --8<-- [end:row]
# --8<-- [start:mlp]
class ParallelMLP(nn.Module):
    """`down(activation(up(x)))`, whose hidden layer is split over ranks.

    (…, sequence, hidden) to the same, whole on every rank; with
    `sequence_parallel`, (…, sequence / n, hidden) to the same. `activation`
    works on each number alone.
    """

    def __init__(
        self,
        up: nn.Linear,
        down: nn.Linear,
        activation: Callable[[Tensor], Tensor] = F.gelu,
        group: Group = None,
        sequence_parallel: bool = False,
    ) -> None:
        super().__init__()
        self.up = ColumnParallelLinear(up, group, sequence_parallel)
        self.down = RowParallelLinear(down, group, sequence_parallel)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.activation(self.up(x)))


# --8<-- [end:mlp]
# --8<-- [start:attention]
class ParallelAttention(nn.Module):
    """Self-attention, whose heads are split over ranks; shapes as the MLP's.

    Args:
        q: head h of size d makes outputs h·d to (h + 1)·d.
        k: the same. Scores are divided by √d.
        v: the same.
        o: from all heads' values, in their order.
        causal: a token sees itself and what is before it.

    Raises:
        ValueError: n does not divide `heads`.
    """

    def __init__(
        self,
        q: nn.Linear,
        k: nn.Linear,
        v: nn.Linear,
        o: nn.Linear,
        heads: int,
        causal: bool = False,
        group: Group = None,
        sequence_parallel: bool = False,
    ) -> None:
        super().__init__()
        # n may divide the outputs and cut a head in two.
        self.heads = share(heads, "heads", place(group)[1])
        self.q, self.k, self.v = (
            ColumnParallelLinear(full, group) for full in (q, k, v)
        )
        self.o = RowParallelLinear(o, group, sequence_parallel)
        self.causal = causal
        self.group, self.sequence_parallel = group, sequence_parallel

    def forward(self, x: Tensor) -> Tensor:
        # Once for three products: their gradients are summed on this rank
        # before ranks are.
        x = enter(x, self.group, self.sequence_parallel)
        q, k, v = (
            layer.product(x).unflatten(-1, (self.heads, -1)).transpose(-2, -3)
            for layer in (self.q, self.k, self.v)
        )
        found = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.o(found.transpose(-2, -3).flatten(-2))


# --8<-- [end:attention]
# --8<-- [start:loss]
def vocab_parallel_cross_entropy(
    logits: Tensor, targets: Tensor, group: Group = None
) -> Tensor:
    """Return the loss of each token, as `F.cross_entropy(…, reduction="none")`.

    Ranks exchange three numbers a token. Nothing is averaged: only the caller
    knows how many targets the global batch has. Targets are not checked, for
    which the host would wait for the GPU.

    Args:
        logits: (…, vocabulary / n). Rank r has tokens r·v to (r + 1)·v of the
            vocabulary, if v is the length of its part.
        targets: (…), the same on every rank. Where it is -100, the loss and
            its gradients are 0.

    Returns:
        (…), the same on every rank, in float32 at least. Each calls
        `backward` on it.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    greatest = logits.detach().amax(-1)
    dist.all_reduce(greatest, dist.ReduceOp.MAX, group)
    shifted = logits - greatest.unsqueeze(-1)  # so that exp stays finite

    size = logits.shape[-1]
    own = targets - place(group)[0] * size
    here = (own >= 0) & (own < size)
    # gather would keep all of `shifted` for backward, beside its exp.
    rows, columns = shifted.flatten(0, -2), own.where(here, 0).flatten()
    chosen = rows[torch.arange(len(rows), device=rows.device), columns]
    chosen = chosen.view_as(targets).where(here, 0)
    sums = torch.stack([shifted.exp().sum(-1), chosen])
    total, target = leave(sums, group, sequence_parallel=False)
    return (total.log() - target).masked_fill(targets == IGNORED, 0)


# --8<-- [end:loss]
