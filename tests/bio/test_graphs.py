"""A batch of graphs is its molecules, one by one."""

from functools import cache

import pytest
import torch
from torch import nn
from torch_geometric.data import Batch as TheirBatch
from torch_geometric.data import Data
from torch_geometric.nn import GINConv, global_add_pool

from lockstep.bio import graphs as module
from lockstep.bio.datasets import chembl
from lockstep.bio.graphs import (
    Batch,
    Graph,
    Network,
    changed,
    graph,
    piled,
    union,
)


@cache
def some(count: int = 256) -> list[Graph]:
    return [graph(one) for one in chembl().of("CHEMBL204_Ki")[0][:count]]


def network() -> Network:
    torch.manual_seed(0)
    return Network()


def test_a_graph_is_the_molecule() -> None:
    found = graph("C[NH3+]")
    assert found.atoms.tolist() == [[6, 0, 3, 0], [7, 1, 3, 0]]
    assert found.bonds.tolist() == [[0, 1], [1, 0]]
    assert graph("c1ccccc1").atoms[:, 3].all()
    assert graph("C").bonds.shape == (2, 0)
    with pytest.raises(ValueError, match="kekulize"):
        graph("c1cccc1")


def test_the_union_is_torch_geometrics() -> None:
    """Atoms, bonds, owners and offsets of our union of graphs are those of
    torch_geometric's `Batch`."""
    ours = union([*some(32), graph("C")])
    theirs = TheirBatch.from_data_list(
        [
            Data(x=one.atoms, edge_index=one.bonds)
            for one in [*some(32), graph("C")]
        ]
    )
    assert ours.atoms.equal(theirs.x)
    assert ours.bonds.equal(theirs.edge_index)
    assert ours.owner.equal(theirs.batch)
    assert ours.counts.cumsum(0).equal(theirs.ptr[1:])


def test_the_network_is_torch_geometrics() -> None:
    """Our network's outputs are those of torch_geometric's `GINConv` and
    `global_add_pool` with the same weights."""
    net, batch = network(), union(some(32))
    h = net.embed(batch.atoms.float())
    for change in net.rounds:
        h = GINConv(change)(h, batch.bonds)
    theirs = global_add_pool(net.out(h), batch.owner)[:, 0]
    assert torch.allclose(net(batch), theirs, rtol=1e-5, atol=1e-6)


def test_a_batch_is_its_molecules_one_by_one() -> None:
    """The network's outputs for a batch are those for each molecule alone, and
    those for the batch in reverse."""
    assert changed(network(), some()) == {"alone": 0, "reversed": 0}


def test_without_the_offset_all_are_wrong_and_nothing_is_raised() -> None:
    """The opposite order shows those few whose atoms all bonds lie on."""
    found = changed(network(), some(), piled)
    assert found["alone"] == 256
    assert 0 < found["reversed"] < 32


def offset_by_one(graphs: list[Graph]) -> Batch:
    right = union(graphs)
    bonds = (right.bonds + 1) % len(right.atoms)
    return Batch(right.atoms, bonds, right.owner, right.counts)


def owner_off(graphs: list[Graph]) -> Batch:
    """The last atom of each molecule counts as the next one's."""
    right = union(graphs)
    return Batch(right.atoms, right.bonds, right.owner.roll(1), right.counts)


@pytest.mark.parametrize("batcher", [offset_by_one, owner_off])
def test_the_invariant_sees_other_wrong_batches(batcher) -> None:
    found = changed(network(), some()[::4], batcher)
    assert found["alone"] > 16
    assert found["reversed"] > 16


def test_a_layer_that_looks_at_its_batch_is_seen() -> None:
    """Not a wrong batch, but a wrong layer for one: statistics over it."""

    class Normed(Network):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Sequential(self.embed, nn.BatchNorm1d(32))

    torch.manual_seed(0)
    net = Normed()
    assert changed(net, some(64))["alone"] > 32
    assert changed(net.eval(), some(64))["alone"] == 0


def test_both_batches_are_printed(monkeypatch, capsys) -> None:
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    module.main()
    *_, right, wrong = capsys.readouterr().out.splitlines()
    assert right.split()[-2:] == ["0", "0"]
    assert wrong.split()[-2] == "256"


def test_in_training_batch_norm_lets_company_change_an_output() -> None:
    """With batch norm in training mode, all 32 outputs change with the other
    molecules of the batch. In evaluation mode none does."""
    net = network()
    net.out = nn.Sequential(nn.BatchNorm1d(32), net.out)
    assert changed(net, some(32))["alone"] == 32
    assert not any(changed(net.eval(), some(32)).values())
