"""Graphs of unequal size in one batch, and sums over each graph's own atoms.

A batch is a disjoint union: atoms stand one after the other, bonds name them by
their place in the batch, and nothing is padded. Each function here makes of a
batch what it would make of every graph alone. It needs torch and no chemistry.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

Group = dist.ProcessGroup | None


class Graph(NamedTuple):
    """One molecule. It may have no bonds, and even no atoms."""

    atoms: Tensor  # float [atoms, features]
    bonds: Tensor  # int64 [2, bonds]: from, to


class Batch(NamedTuple):
    """Many molecules as one graph, whose parts are not joined."""

    atoms: Tensor  # float [all atoms, features]
    bonds: Tensor  # int64 [2, all bonds], into all atoms
    owner: Tensor  # int64 [all atoms], the graph of an atom
    counts: Tensor  # int64 [graphs], atoms of each


Predict = Callable[[Sequence[Graph]], Tensor]


# --8<-- [start:union]
def union(graphs: Sequence[Graph], features: int) -> Batch:
    """The graphs as one, in their order.

    Args:
        graphs: perhaps none.
        features: columns of atoms, which an empty batch has as well.
    """
    counts = torch.tensor([len(one.atoms) for one in graphs]).long()
    offsets = counts.cumsum(0) - counts
    nothing = torch.empty(2, 0, dtype=torch.int64)
    moved = [one.bonds + o for one, o in zip(graphs, offsets, strict=True)]
    atoms = [one.atoms for one in graphs] or [torch.empty(0, features)]
    owner = torch.arange(len(graphs)).repeat_interleave(counts)
    return Batch(
        torch.cat(atoms), torch.cat([*moved, nothing], 1), owner, counts
    )


# --8<-- [end:union]
# --8<-- [start:messages]
def messages(h: Tensor, batch: Batch) -> Tensor:
    """(all atoms, f) to the same: of each bond that ends at an atom, what
    stands where it begins, summed."""
    begin, end = batch.bonds
    return torch.zeros_like(h).index_add(0, end, h[begin])


# --8<-- [end:messages]
# --8<-- [start:readout]
def readout(h: Tensor, batch: Batch, how: str) -> Tensor:
    """(all atoms, f) to (graphs, f): "sum", "mean" or "max" over each graph's
    atoms. Of no atoms it is 0.

    Raises:
        ValueError: `how` is another word.
    """
    empty = h.new_zeros(len(batch.counts), h.shape[1])
    if how == "max":
        owner = batch.owner[:, None].expand_as(h)
        return empty.scatter_reduce(0, owner, h, "amax", include_self=False)
    total = empty.index_add(0, batch.owner, h)
    if how == "mean":
        return total / batch.counts.clamp(min=1)[:, None]
    if how == "sum":
        return total
    raise ValueError(f"how is {how!r}; it must be sum, mean or max")


# --8<-- [end:readout]
# --8<-- [start:softmax]
def softmax(scores: Tensor, batch: Batch) -> Tensor:
    """(all atoms) to weights that sum to 1 over each graph's atoms, however
    large the scores are."""
    # Each graph's own maximum is taken off: under another's, far above it, all
    # its exponentials would be 0.
    top = readout(scores[:, None], batch, "max")[batch.owner, 0]
    parts = (scores - top.detach()).exp()
    return parts / readout(parts[:, None], batch, "sum")[batch.owner, 0]


# --8<-- [end:softmax]
# --8<-- [start:permuted]
def permuted(graph: Graph, order: Tensor) -> Graph:
    """The same molecule, whose atom i is what was atom order[i].

    Args:
        order: int64 [atoms], a permutation.
    """
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order))  # of an old atom, its new number
    return Graph(graph.atoms[order], place[graph.bonds])


# --8<-- [end:permuted]
# --8<-- [start:company]
def company(predict: Predict, graphs: Sequence[Graph]) -> list[int]:
    """The numbers of the graphs whose output depends on their company.

    Those are the graphs whose output alone, or in the reversed batch, is not
    the one in the batch, by more than 1e-4 of the batch's largest output.

    Args:
        predict: graphs to one value each, [graphs].
    """
    with torch.no_grad():
        here = predict(graphs)
        alone = torch.cat([predict([one]) for one in graphs])
        back = predict(graphs[::-1]).flip(0)
    most = 1e-4 * here.abs().max()
    off = ((here - alone).abs() > most) | ((here - back).abs() > most)
    return off.nonzero()[:, 0].tolist()


# --8<-- [end:company]
# --8<-- [start:mean]
def atom_mean(errors: Tensor, group: Group = None) -> Tensor:
    """This rank's part of the mean over the atoms of all ranks, in float32 or
    what is wider.

    The mean over ranks of these parts is that mean. Data-parallel training
    averages gradients, so theirs is right too. A rank without atoms takes part
    with 0, and has a backward pass like the others. Without any atoms the mean
    is 0.

    Args:
        errors: [atoms of this rank], perhaps none.
        group: the ranks among which gradients are averaged; None for all.
    """
    count = torch.tensor(len(errors), device=errors.device)
    dist.all_reduce(count, group=group)
    wide = errors.to(torch.promote_types(errors.dtype, torch.float32))
    return wide.sum() * dist.get_world_size(group) / count.clamp(min=1)


# --8<-- [end:mean]
