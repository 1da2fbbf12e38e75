"""Lab B4's sound functions beside torch_geometric's, and beside one graph."""

import os

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch_geometric.data import Batch as TheirBatch
from torch_geometric.data import Data
from torch_geometric.nn import (
    global_add_pool,
    global_max_pool,
    global_mean_pool,
)
from torch_geometric.utils import softmax as their_softmax

from lockstep.labs.lab_b4_graph_batches import sound
from lockstep.labs.lab_b4_graph_batches.grader import ragged, some
from lockstep.labs.lab_b4_graph_batches.sound import Graph, union
from tests.ranks import run_ranks, store

FEATURES = 3


def both() -> tuple[sound.Batch, TheirBatch]:
    graphs = [*some(), *ragged()]
    theirs = [Data(x=one.atoms, edge_index=one.bonds) for one in graphs]
    return union(graphs, FEATURES), TheirBatch.from_data_list(theirs)


def test_the_union_is_torch_geometrics() -> None:
    """The lab's union of graphs has the atoms, bonds, owners and offsets of
    torch_geometric's `Batch`, and an empty one has the right shapes."""
    ours, theirs = both()
    assert ours.atoms.equal(theirs.x)
    assert ours.bonds.equal(theirs.edge_index)
    assert ours.owner.equal(theirs.batch)
    assert ours.counts.cumsum(0).equal(theirs.ptr[1:])
    none = union([], FEATURES)
    assert none.atoms.shape == (0, FEATURES)
    assert none.bonds.shape == (2, 0)
    assert none.counts.dtype == none.owner.dtype == torch.int64


@pytest.mark.parametrize(
    ("how", "pool"),
    [
        ("sum", global_add_pool),
        ("mean", global_mean_pool),
        ("max", global_max_pool),
    ],
)
def test_a_readout_is_torch_geometrics(how: str, pool: object) -> None:
    """Sum, mean and max over a graph's atoms are those of torch_geometric's
    pooling functions."""
    ours, theirs = both()
    assert callable(pool)
    expected = pool(theirs.x, theirs.batch, len(ours.counts))
    assert torch.allclose(sound.readout(ours.atoms, ours, how), expected)


def test_another_readout_is_refused() -> None:
    ours, _ = both()
    with pytest.raises(ValueError, match="how is 'median'; it must be sum"):
        sound.readout(ours.atoms, ours, "median")


def test_softmax_is_torch_geometrics() -> None:
    """Softmax within each graph is torch_geometric's, for large scores too."""
    ours, theirs = both()
    scores = 100 * ours.atoms[:, 0]
    expected = their_softmax(scores, theirs.batch)
    assert torch.allclose(sound.softmax(scores, ours), expected)


def test_messages_go_along_bonds() -> None:
    h = torch.tensor([[1.0], [10.0], [100.0]])
    star = torch.tensor([[0, 1, 0], [2, 2, 1]])
    batch = union([Graph(h, star)], 1)
    assert sound.messages(h, batch)[:, 0].tolist() == [0, 1, 11]


def test_a_bond_keeps_its_atoms_when_they_are_renumbered() -> None:
    """Renumbering a graph's atoms leaves each bond between the same two atoms.
    The inverse rule does not."""
    graph, order = some()[0], torch.tensor([2, 0, 1, 4, 3])
    ends = graph.atoms[graph.bonds]
    there = sound.permuted(graph, order)
    assert there.atoms[there.bonds].equal(ends)
    # By the other rule they do not, though there and back is the same graph.
    wrong = Graph(graph.atoms[order], order[graph.bonds])
    assert not wrong.atoms[wrong.bonds].equal(ends)
    assert order.argsort()[wrong.bonds].equal(graph.bonds)


def test_company_is_found_alone_and_in_reverse() -> None:
    """The check for a layer that looks at its batch finds nothing for a layer
    that does not, and names every molecule for one that marks the first of its
    batch."""
    graphs = some()

    def sizes(of: list[Graph]) -> Tensor:
        return torch.tensor([float(len(one.atoms)) for one in of])

    assert sound.company(sizes, graphs) == []
    after = [1.0, 0.0, 0.0, 0.0]  # the first of a batch alone

    def first(of: list[Graph]) -> Tensor:
        return sizes(of) + torch.tensor(after[: len(of)])

    # Alone each is a first; in reverse the last is.
    assert sound.company(first, graphs) == [0, 1, 2, 3]


def job(sizes: list[int]) -> tuple[float, np.ndarray]:
    """The mean over ranks, and the averaged gradient."""
    rank = int(os.environ["RANK"])
    dist.init_process_group(
        "gloo", store=store(), rank=rank, world_size=len(sizes)
    )
    weight = torch.ones(2, requires_grad=True)
    x = torch.arange(2.0 * sizes[rank]).reshape(-1, 2) + rank
    part = sound.atom_mean(x @ weight)
    part.backward()
    assert weight.grad is not None
    both = torch.stack([part.detach(), *weight.grad])
    dist.all_reduce(both)
    dist.barrier()
    dist.destroy_process_group()
    return float(both[0]) / len(sizes), (both[1:] / len(sizes)).numpy()


@pytest.mark.parametrize("sizes", [[3, 1], [4, 0], [0, 0]])
def test_a_mean_is_over_all_atoms(sizes: list[int]) -> None:
    """The mean over ranks with unequal numbers of atoms, and its gradient, are
    those of all atoms together."""
    x = torch.cat(
        [
            torch.arange(2.0 * size).reshape(-1, 2) + rank
            for rank, size in enumerate(sizes)
        ]
    )
    right = x.sum(0) / max(1, len(x))
    for mean, gradient in run_ranks(2, job, sizes):
        assert mean == pytest.approx(float(right.sum()))
        assert gradient == pytest.approx(right.numpy())
