"""Lab B6: the pair representation over two axes of ranks.

z is (rows, columns, …): residue i is a row, j a column. Rank (r, c) of a mesh
has the r-th part of the rows and the c-th of the columns: its tile. Each
function takes tiles and returns this rank's tile of what one device would
return. Gradients of its inputs are this rank's tiles as well, where each rank
calls `backward` on its own tile of the result.

All ranks of a mesh call a function together. A mesh is not all ranks: others
may have another sample.
"""

from typing import NamedTuple

import torch.distributed as dist
from torch import Tensor, nn

Group = dist.ProcessGroup | None


class Mesh(NamedTuple):
    """Two groups of this rank."""

    down: Group  # the ranks (·, c), which share our columns
    across: Group  # the ranks (r, ·), which share our rows


def part(z: Tensor, mesh: Mesh) -> Tensor:
    """This rank's tile of a whole z, in memory of its own.

    Raises:
        ValueError: the ranks do not divide the rows or the columns.
    """
    raise NotImplementedError  # TODO: rows by `down`, columns by `across`


def gather(x: Tensor, dim: int, group: Group) -> Tensor:
    """What all ranks have, along `dim`, in the order of ranks.

    Each rank uses the whole, so the gradient of a part is a sum.
    """
    raise NotImplementedError  # TODO: the gradient is a reduce-scatter


def scatter(x: Tensor, dim: int, group: Group) -> Tensor:
    """This rank's part along `dim` of the sum over ranks."""
    raise NotImplementedError  # TODO: the gradient is an all-gather


def outgoing(a: Tensor, b: Tensor, mesh: Mesh) -> Tensor:
    """Tiles of a and b, (i, k, c) and (j, k, c), to our tile (i, j, c) of
    Σₖ a[i, k] b[j, k]."""
    raise NotImplementedError  # TODO: which k does this rank have of b?


def incoming(a: Tensor, b: Tensor, mesh: Mesh) -> Tensor:
    """Tiles of a and b, (k, i, c) and (k, j, c), to our tile (i, j, c) of
    Σₖ a[k, i] b[k, j]."""
    raise NotImplementedError  # TODO: the other one, on transposed tiles


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
    raise NotImplementedError  # TODO: bias is needed at our columns j


def sum_gradients(module: nn.Module, mesh: Mesh) -> None:
    """Each weight's `grad` becomes that of one device.

    Weights are whole on every rank; `grad` is of this rank's pairs alone, or
    None on all ranks.
    """
    raise NotImplementedError  # TODO: a sum over both axes
