"""Lab B6: triangle updates of pairs, of which each rank has a tile.

z is (rows, columns, …): residue i is a row, j a column. Rank (r, c) of a mesh
has the r-th part of the rows and the c-th of the columns.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from lockstep.parallel.collectives import all_gather, place, reduce_scatter

Group = dist.ProcessGroup | None


class Mesh(NamedTuple):
    """Two groups of this rank."""

    down: Group  # the ranks (·, c), which share our columns
    across: Group  # the ranks (r, ·), which share our rows


# --8<-- [start:part]
def part(z: Tensor, mesh: Mesh) -> Tensor:
    """This rank's tile of a whole z, in memory of its own.

    Raises:
        ValueError: the ranks do not divide the rows or the columns.
    """
    for dim, group in enumerate(mesh):
        rank, ranks = place(group)
        if z.shape[dim] % ranks:
            raise ValueError(f"{ranks} ranks do not divide {z.shape[dim]}")
        z = z.chunk(ranks, dim)[rank]
    return z.clone(memory_format=torch.contiguous_format)


# --8<-- [end:part]
# --8<-- [start:gather]
def joined(x: Tensor, group: Group) -> Tensor:
    """What all ranks have, along the first dimension."""
    whole = x.new_empty(place(group)[1] * len(x), *x.shape[1:])
    all_gather(whole, x.contiguous(), group=group)
    return whole


def summed(x: Tensor, group: Group) -> Tensor:
    """Our part, along the first dimension, of the sum over ranks."""
    mine = x.new_empty(len(x) // place(group)[1], *x.shape[1:])
    reduce_scatter(mine, x.contiguous(), group=group)
    return mine


class Moved(torch.autograd.Function):
    """`there` with a tensor, and its transpose `back` with the gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        there: Callable[[Tensor, Group], Tensor],
        back: Callable[[Tensor, Group], Tensor],
        group: Group,
    ) -> Tensor:
        """Applied by `gather` and `scatter` alone."""
        ctx.back, ctx.group = back, group
        return there(x, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        """Of x."""
        return ctx.back(grad, ctx.group), None, None, None


def gather(x: Tensor, dim: int, group: Group) -> Tensor:
    """What all ranks have, along `dim`, in the order of ranks.

    Each rank uses the whole, so the gradient of a part is a sum.
    """
    moved = Moved.apply(x.movedim(dim, 0), joined, summed, group)
    return moved.movedim(0, dim)


def scatter(x: Tensor, dim: int, group: Group) -> Tensor:
    """This rank's part along `dim` of the sum over ranks."""
    moved = Moved.apply(x.movedim(dim, 0), summed, joined, group)
    return moved.movedim(0, dim)


# --8<-- [end:gather]
# --8<-- [start:outgoing]
def outgoing(a: Tensor, b: Tensor, mesh: Mesh) -> Tensor:
    """Tiles of a and b, (i, k, c) and (j, k, c), to our tile (i, j, c) of
    Σₖ a[i, k] b[j, k]."""
    # Every row of b comes, at our columns k. Products of our rows with all of
    # them are one term of a sum over the ranks across.
    rows = gather(b, 0, mesh.down)
    return scatter(torch.einsum("ikc,jkc->ijc", a, rows), 1, mesh.across)


# --8<-- [end:outgoing]
# --8<-- [start:incoming]
def incoming(a: Tensor, b: Tensor, mesh: Mesh) -> Tensor:
    """Tiles of a and b, (k, i, c) and (k, j, c), to our tile (i, j, c) of
    Σₖ a[k, i] b[k, j]."""
    # On transposed tiles the axes change names. There the sum with b first is
    # the transpose of ours.
    swapped = Mesh(mesh.across, mesh.down)
    turned = outgoing(b.transpose(0, 1), a.transpose(0, 1), swapped)
    return turned.transpose(0, 1)


# --8<-- [end:incoming]
# --8<-- [start:attention]
def attention(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor, mesh: Mesh
) -> Tensor:
    """In each row i, edge ij attends to all edges ik of its row.

    The score of ij and ik is their product over √d, plus bias[j, k].

    Args:
        q, k, v: tiles (rows, columns, heads, d).
        bias: a tile (rows, columns, heads), the same for every row i.

    Returns:
        (rows, columns, heads, d).
    """
    k, v = gather(k, 1, mesh.across), gather(v, 1, mesh.across)
    whole = gather(gather(bias, 1, mesh.across), 0, mesh.down)
    rank, ranks = place(mesh.across)
    ours = whole.chunk(ranks)[rank]  # rows j of our columns j
    scores = torch.einsum("ijhd,ikhd->ihjk", q, k) * q.shape[-1] ** -0.5
    weights = (scores + ours.movedim(-1, 0)).softmax(-1)
    return torch.einsum("ihjk,ikhd->ijhd", weights, v)


# --8<-- [end:attention]
# --8<-- [start:weights]
def sum_gradients(module: nn.Module, mesh: Mesh) -> None:
    """Each weight's `grad` becomes that of one device.

    Weights are whole on every rank; `grad` is of this rank's pairs alone, or
    None on all ranks.
    """
    # One sample, on all ranks of the mesh. Along one axis, then the other: both
    # sums are whole.
    for weight in module.parameters():
        if weight.grad is not None:
            for group in mesh:
                dist.all_reduce(weight.grad, group=group)


# --8<-- [end:weights]
