"""The pair representation, of which each rank has some rows, or a tile.

    python -m lockstep.bio.pair_sharding

`Rows` is Dynamic Axial Parallelism (Cheng et al. 2022, FastFold,
https://arxiv.org/abs/2203.00854): where an update works on columns, an
all-to-all turns rows into columns. `Tiles` splits both axes, and turns nothing:
the transpose of a tile is a tile of the transpose, and the axes change names.

Weights are whole on every rank, and each has the gradient of its own pairs:
`sum_gradients` adds them up. To average them, as DDP does, is to divide by the
number of ranks that share one sample.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from lockstep.instruments.forked import in_a_group
from lockstep.instruments.traffic import Traffic
from lockstep.parallel.collectives import (
    Group,
    all_gather,
    place,
    reduce_scatter,
)
from lockstep.parallel.context_parallel import trade

from .pair import Attend, Layout, PairBlock, attend, planned


def share(residues: int, ranks: int) -> int:
    """`residues` / `ranks`. ValueError if that is no whole number."""
    if residues % ranks:
        raise ValueError(f"{ranks} ranks do not divide {residues} residues")
    return residues // ranks


# --8<-- [start:gather]
def joined_up(x: Tensor, group: Group) -> Tensor:
    """Join what all ranks have, along the first dimension."""
    whole = x.new_empty(place(group)[1] * x.shape[0], *x.shape[1:])
    all_gather(whole, x.contiguous(), group=group)
    return whole


def summed_up(x: Tensor, group: Group) -> Tensor:
    """Our part, along the first dimension, of the sum over ranks."""
    part = x.new_empty(x.shape[0] // place(group)[1], *x.shape[1:])
    reduce_scatter(part, x.contiguous(), group=group)
    return part


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
        """Communicate `there`, and `back` for the gradient."""
        ctx.back, ctx.group = back, group
        return there(x, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        """Return the gradient of x."""
        return ctx.back(grad, ctx.group), None, None, None


def gather(x: Tensor, dim: int, group: Group) -> Tensor:
    """Gather all ranks' parts along `dim`; gradients are summed and split."""
    moved = Moved.apply(x.movedim(dim, 0), joined_up, summed_up, group)
    return moved.movedim(0, dim)


def scatter(x: Tensor, dim: int, group: Group) -> Tensor:
    """Our part along `dim` of the sum over ranks; gradients are gathered."""
    moved = Moved.apply(x.movedim(dim, 0), summed_up, joined_up, group)
    return moved.movedim(0, dim)


# --8<-- [end:gather]
# --8<-- [start:rows]
class Rows(Layout):
    """Rank r has the r-th part of the rows, and all columns."""

    def __init__(self, group: Group = None) -> None:
        self.group = group

    def multiply(self, a: Tensor, b: Tensor) -> Tensor:
        """Our rows of a with every row of b, which is as large as z."""
        return super().multiply(a, gather(b, 0, self.group))

    def bias(self, b: Tensor) -> Tensor:
        """Every row's: it has `heads` channels, and not 128."""
        return gather(b, 0, self.group)

    def turned(self, z: Tensor) -> tuple[Tensor, Layout]:
        """Our rows of the transpose: an all-to-all."""
        return trade(z, 1, 0, self.group).transpose(0, 1), self

    def part(self, z: Tensor) -> Tensor:
        """Return this rank's part of a whole z."""
        rank, ranks = place(self.group)
        return z.split(share(len(z), ranks))[rank]


# --8<-- [end:rows]
# --8<-- [start:tiles]
class Tiles(Layout):
    """Rank (r, c) has the r-th part of the rows, the c-th of the columns.

    Args:
        down: the ranks (·, c), which share our columns.
        across: the ranks (r, ·), which share our rows.
    """

    def __init__(self, down: Group, across: Group) -> None:
        self.down, self.across = down, across

    def multiply(self, a: Tensor, b: Tensor) -> Tensor:
        """Our k of every row of b, then the sum of what ranks across have."""
        edges = super().multiply(a, gather(b, 0, self.down))
        return scatter(edges, 1, self.across)

    def whole_rows(self, x: Tensor) -> Tensor:
        """From the ranks across."""
        return gather(x, 1, self.across)

    def bias(self, b: Tensor) -> Tensor:
        """(j, k): rows of our columns, and all k."""
        whole = gather(gather(b, 1, self.across), 0, self.down)
        rank, ranks = place(self.across)
        return whole.chunk(ranks)[rank]

    def turned(self, z: Tensor) -> tuple[Tensor, Layout]:
        """Our tile of the transpose: nothing is sent."""
        return z.transpose(0, 1), Tiles(self.across, self.down)

    def part(self, z: Tensor) -> Tensor:
        """Return this rank's part of a whole z."""
        for dim, group in enumerate((self.down, self.across)):
            rank, ranks = place(group)
            z = z.split(share(z.shape[dim], ranks), dim)[rank]
        return z


# --8<-- [end:tiles]
def tiles(mesh: DeviceMesh) -> Tiles:
    """Return the tiles of a mesh of two dimensions: rows, columns."""
    return Tiles(mesh.get_group(0), mesh.get_group(1))


def sum_gradients(module: nn.Module, group: Group = None) -> None:
    """Over the ranks that share one sample, in place."""
    for weight in module.parameters():
        assert weight.grad is not None, "the backward pass has not been run"
        dist.all_reduce(weight.grad, group=group)


class Seen(NamedTuple):
    """What a rank sent and kept."""

    sent: float  # bytes, in both passes
    kept: int  # bytes, for the backward pass


def saved(module: nn.Module, forward: Callable[[], Tensor]) -> int:
    """Bytes that autograd keeps of `forward()`, without weights."""
    ours = {weight.data_ptr() for weight in module.parameters()}
    found: dict[int, torch.UntypedStorage] = {}  # alive, so no two in one place

    def pack(tensor: Tensor) -> Tensor:
        one = tensor.untyped_storage()
        found[one.data_ptr()] = one
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        forward()
    return sum(one.nbytes() for at, one in found.items() if at not in ours)


def both_passes(block: PairBlock, layout: Layout, mine: Tensor) -> Seen:
    """Return the gradient of the sum of a block's output on this rank's z."""
    mine.requires_grad_()
    kept = saved(block, lambda: block(mine * 1, layout))
    with Traffic() as traffic:
        block(mine * 1, layout).sum().backward()
    return Seen(traffic.sent, kept)


def measured(
    rows: int, columns: int, residues: int, attend: Attend = attend
) -> Seen:
    """On this rank of a group of rows × columns, in fp32."""
    torch.manual_seed(0)
    block = PairBlock(attend=attend)
    generator = torch.Generator().manual_seed(1)
    z = torch.randn(residues, residues, 128, generator=generator)
    if columns == 1:
        layout: Rows | Tiles = Rows()
    else:
        layout = tiles(init_device_mesh("cpu", (rows, columns)))
    return both_passes(block, layout, layout.part(z).clone())


SPLITS = (1, 1), (2, 1), (4, 1), (2, 2)


def main() -> None:
    """MB of one block in both passes, by split: planned, and on a rank."""
    residues = 64
    print(f"{residues} residues, fp32, MB of a rank")
    print(f"{'rows × columns':16}{'sent':>8}", end="")
    print(f"{'planned':>9}{'kept':>8}{'planned':>9}")
    for rows, columns in SPLITS:
        asked = {"rows": rows, "columns": columns, "bytes_activation": 4}
        plan = planned(residues, **asked)
        each = in_a_group(rows * columns, measured, rows, columns, residues)
        figures = (
            max(one.sent for one in each),
            float(plan["sent_bytes"]),
            max(one.kept for one in each),
            float(plan["block_bytes"]),
        )
        said = "".join(
            f"{one / 1e6:{width}.2f}"
            for one, width in zip(figures, (8, 9, 8, 9), strict=True)
        )
        print(f"{f'{rows} × {columns}':16}{said}")


if __name__ == "__main__":
    main()
