"""Lab B4: graph batches.

What a function makes of a batch is what it would make of each graph alone:
values, and the gradients of whatever they were computed from. Tensors are of
any floating-point dtype. What is passed in stays as it is.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

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


def union(graphs: Sequence[Graph], features: int) -> Batch:
    """The graphs as one, in their order.

    Args:
        graphs: perhaps none.
        features: columns of atoms, which an empty batch has as well.
    """
    raise NotImplementedError  # TODO: a bond moves on with its atoms


def messages(h: Tensor, batch: Batch) -> Tensor:
    """(all atoms, f) to the same: of each bond that ends at an atom, what
    stands where it begins, summed."""
    raise NotImplementedError  # TODO: several bonds end at one atom


def readout(h: Tensor, batch: Batch, how: str) -> Tensor:
    """(all atoms, f) to (graphs, f): "sum", "mean" or "max" over each graph's
    atoms. Of no atoms it is 0.

    Raises:
        ValueError: `how` is another word.
    """
    raise NotImplementedError  # TODO: the last graph may have no atoms


def softmax(scores: Tensor, batch: Batch) -> Tensor:
    """(all atoms) to weights that sum to 1 over each graph's atoms, however
    large the scores are."""
    raise NotImplementedError  # TODO: whose maximum do you take off?


def permuted(graph: Graph, order: Tensor) -> Graph:
    """The same molecule, whose atom i is what was atom order[i].

    Args:
        order: int64 [atoms], a permutation.
    """
    raise NotImplementedError  # TODO: bonds name atoms by their new numbers


def company(
    predict: Callable[[Sequence[Graph]], Tensor], graphs: Sequence[Graph]
) -> list[int]:
    """The numbers of the graphs whose output depends on their company.

    Those are the graphs whose output alone, or in the reversed batch, is not
    the one in the batch, by more than 1e-4 of the batch's largest output.

    Args:
        predict: graphs to one value each, [graphs].
    """
    raise NotImplementedError  # TODO: a check that can fail


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
    raise NotImplementedError  # TODO: every rank has to call
