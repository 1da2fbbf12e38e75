"""Molecular graphs in one batch: a disjoint union, and what shows a wrong one.

    python -m lockstep.bio.graphs

A batch is one graph whose parts are not joined. Nothing is padded: atoms stand
one after the other, and a bond names its atoms by their place in the batch. An
offset that is forgotten names an atom of another molecule, and no error tells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

KINDS = 4  # numbers that describe an atom


@dataclass(frozen=True)
class Graph:
    """One molecule."""

    atoms: Tensor  # int64 [atoms, 4]: element, charge, hydrogens, aromatic
    bonds: Tensor  # int64 [2, bonds], each in both directions: from, to


@dataclass(frozen=True)
class Batch:
    """Many molecules as one graph."""

    atoms: Tensor  # int64 [all atoms, 4]
    bonds: Tensor  # int64 [2, all bonds], into all atoms
    owner: Tensor  # int64 [all atoms], the molecule of an atom
    counts: Tensor  # int64 [molecules], atoms of each


Batcher = Callable[[Sequence[Graph]], Batch]


def graph(smiles: str) -> Graph:
    """Return the heavy atoms of a molecule, in the order of its SMILES.

    Raises:
        ValueError: RDKit refuses it.
    """
    from .molecules import parse

    return drawn(parse(smiles))


def drawn(molecule: Any) -> Graph:
    """Return the graph of RDKit's molecule, its atoms in RDKit's order."""
    atoms = [
        [
            atom.GetAtomicNum(),
            atom.GetFormalCharge(),
            atom.GetTotalNumHs(),
            int(atom.GetIsAromatic()),
        ]
        for atom in molecule.GetAtoms()
    ]
    ends = [
        (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())
        for bond in molecule.GetBonds()
    ]
    both = ends + [(b, a) for a, b in ends]
    bonds = torch.tensor(both, dtype=torch.int64).reshape(-1, 2).T
    return Graph(torch.tensor(atoms), bonds)


# --8<-- [start:union]
def union(graphs: Sequence[Graph]) -> Batch:
    """Join graphs into a batch: a bond's atoms are counted after all earlier
    atoms."""
    counts = torch.tensor([len(one.atoms) for one in graphs])
    offsets = counts.cumsum(0) - counts
    return Batch(
        torch.cat([one.atoms for one in graphs]),
        torch.cat(
            [one.bonds + o for one, o in zip(graphs, offsets, strict=True)], 1
        ),
        torch.arange(len(graphs)).repeat_interleave(counts),
        counts,
    )


# --8<-- [end:union]
def piled(graphs: Sequence[Graph]) -> Batch:
    """Wrong: without the offset all bonds lie on the first molecules' atoms.
    Each index is one of the batch, so nothing is raised."""
    right = union(graphs)
    bonds = torch.cat([one.bonds for one in graphs], 1)
    return Batch(right.atoms, bonds, right.owner, right.counts)


# --8<-- [start:network]
class Network(nn.Module):
    """Sums over bonds, then over a molecule's atoms (GIN; Xu et al., 2019)."""

    def __init__(self, width: int = 32, rounds: int = 3) -> None:
        super().__init__()
        self.embed = nn.Linear(KINDS, width)
        self.rounds = nn.ModuleList(
            nn.Sequential(
                nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width)
            )
            for _ in range(rounds)
        )
        self.out = nn.Linear(width, 1)

    def forward(self, batch: Batch) -> Tensor:
        """One value a molecule: [molecules]."""
        h, (begin, end) = self.embed(batch.atoms.float()), batch.bonds
        for change in self.rounds:
            h = change(h.index_add(0, end, h[begin]))
        value = self.out(h)[:, 0]
        empty = value.new_zeros(len(batch.counts))
        return empty.index_add(0, batch.owner, value)


# --8<-- [end:network]
# --8<-- [start:invariant]
@torch.no_grad()
def changed(
    network: nn.Module, graphs: Sequence[Graph], batcher: Batcher = union
) -> dict[str, int]:
    """How many molecules have another output alone, and how many in the same
    batch in the opposite order. It needs no second implementation: what a
    molecule is does not depend on its company."""
    here = network(batcher(graphs))
    others = {
        "alone": torch.cat([network(batcher([one])) for one in graphs]),
        "reversed": network(batcher(graphs[::-1])).flip(0),
    }
    return {
        name: int((~torch.isclose(here, there, 1e-4, 1e-4)).sum())
        for name, there in others.items()
    }


# --8<-- [end:invariant]
def main() -> None:
    """256 molecules with the offset, and without."""
    from .datasets import chembl

    torch.set_num_threads(1)  # many small products
    torch.manual_seed(0)
    network, smiles = Network(), chembl().of("CHEMBL204_Ki")[0][:256]
    graphs = [graph(one) for one in smiles]
    shape = [len(one.atoms) for one in graphs]
    print(
        f"{len(graphs)} molecules of {min(shape)} to {max(shape)} atoms,"
        f" {sum(shape)} in all\n"
    )
    print("other output    alone  reversed")
    for name, batcher in {"offset": union, "no offset": piled}.items():
        found = changed(network, graphs, batcher)
        print(f"{name:12}{found['alone']:9}{found['reversed']:10}")


if __name__ == "__main__":
    main()
