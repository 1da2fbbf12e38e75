"""A loss on forces, one vector an atom, where ranks hold unequal molecules.

    python -m lockstep.bio.forces

Energies come from a network of distances along bonds, forces are their
gradient, and labels are MMFF94's on conformers of RDKit. A step's loss is a
mean over all atoms of all ranks. The mean of each rank's own mean is another
function: it weighs the atoms of a rank with small molecules more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn

from lockstep.instruments.forked import in_a_group
from lockstep.parallel.data_parallel import DataParallel
from lockstep.trainer.order import GlobalOrder

from .global_mean import part_of_mean
from .graphs import Graph, union


@dataclass(frozen=True)
class Conformer:
    """A molecule with places of its atoms, hydrogens included."""

    graph: Graph
    places: Tensor  # float32 [atoms, 3], Å
    forces: Tensor  # float32 [atoms, 3], kcal/mol/Å


def conformer(smiles: str, seed: int = 0) -> Conformer:
    """One conformer (ETKDG) and its forces (MMFF94), from a seed.

    Raises:
        ValueError: RDKit refuses it, finds no conformer, or lacks parameters.
    """
    from rdkit import Chem
    from rdkit.Chem import rdDistGeom, rdForceFieldHelpers

    from .graphs import drawn
    from .molecules import parse

    molecule = Chem.AddHs(parse(smiles))
    if rdDistGeom.EmbedMolecule(molecule, randomSeed=seed):
        raise ValueError(f"SMILES {smiles!r}: no conformer was found")
    kinds = rdForceFieldHelpers.MMFFGetMoleculeProperties(molecule)
    if kinds is None:
        raise ValueError(f"SMILES {smiles!r}: MMFF94 knows not all its atoms")
    field = rdForceFieldHelpers.MMFFGetMoleculeForceField(molecule, kinds)
    places = torch.tensor(molecule.GetConformer().GetPositions()).float()
    forces = -torch.tensor(field.CalcGrad()).reshape(-1, 3).float()
    return Conformer(drawn(molecule), places, forces)


def sample(count: int, seed: int = 0) -> tuple[list[Conformer], int]:
    """`count` small organic molecules, and how many others were passed over
    because they are salts, large, or have no MMFF94 parameters."""
    from .datasets import nci

    order, smiles = GlobalOrder(len(nci()), seed), nci()
    found: list[Conformer] = []
    passed = 0
    for row in order(torch.arange(len(smiles)).numpy()):
        if len(found) == count:
            break
        try:
            if len(smiles[row]) > LONGEST or "." in smiles[row]:
                raise ValueError("a salt, or too large for a quick conformer")
            found.append(conformer(smiles[row], seed))
        except ValueError:
            passed += 1
    return found, passed


class Forces(nn.Module):
    """Minus the gradient of an energy, which is a sum over bonds."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.element = nn.Embedding(120, width)
        self.energy = nn.Sequential(
            nn.Linear(2 * width + CENTERS, width),
            nn.SiLU(),
            nn.Linear(width, 1),
        )

    def forward(self, conformers: Sequence[Conformer]) -> Tensor:
        """Return all atoms' forces in kcal/mol/Å: float32 [atoms, 3]."""
        batch = union([one.graph for one in conformers])
        places = torch.cat([one.places for one in conformers])
        places = places.requires_grad_()
        begin, end = batch.bonds
        length = (places[begin] - places[end]).norm(dim=1)
        near = torch.linspace(0.8, 2.4, CENTERS)  # Å
        ends = self.element(batch.atoms[batch.bonds, 0])
        smooth = torch.exp(-(((length[:, None] - near) / 0.2) ** 2))
        energy = self.energy(
            torch.cat([ends[0] + ends[1], ends[0] * ends[1], smooth], 1)
        ).sum()
        (slope,) = torch.autograd.grad(energy, places, create_graph=True)
        return -slope


# --8<-- [start:losses]
def global_mean(errors: Tensor) -> Tensor:
    """Over the atoms of all ranks, once gradients are averaged."""
    return part_of_mean(errors.sum(), len(errors))


def mean_of_means(errors: Tensor) -> Tensor:
    """Wrong: an atom on a rank with few weighs more."""
    return errors.mean()


# --8<-- [end:losses]
Loss = Callable[[Tensor], Tensor]


def gradient(conformers: Sequence[Conformer], loss: Loss) -> Tensor:
    """Return all parameters' gradient on this rank's molecules: [params]."""
    torch.manual_seed(0)
    network: nn.Module = Forces()
    if dist.is_initialized():
        network = DataParallel(network)
    labels = torch.cat([one.forces for one in conformers])
    loss((network(conformers) - labels).square().sum(1)).backward()
    if isinstance(network, DataParallel):
        network.wait_for_gradients()
    return torch.cat(
        [p.grad.flatten() for p in network.parameters() if p.grad is not None]
    )


def on_rank(shares: Sequence[Sequence[Conformer]]) -> dict[str, Tensor]:
    """Return this rank's gradients, by loss, on its own share."""
    mine = shares[dist.get_rank()]
    return {one.__name__: gradient(mine, one) for one in LOSSES}


def deals(
    conformers: Sequence[Conformer], world: int
) -> dict[str, list[list[Conformer]]]:
    """Shares of ranks: by turns, and blocks of like size as buckets make."""
    ordered = sorted(conformers, key=lambda one: len(one.places))
    block = -(-len(ordered) // world)
    return {
        "by turns": [list(conformers[r::world]) for r in range(world)],
        "by size": [ordered[r * block : (r + 1) * block] for r in range(world)],
    }


def off(found: Tensor, right: Tensor) -> float:
    """Return the relative error of a gradient."""
    return float((found - right).norm() / right.norm())


LONGEST, CENTERS = 30, 8  # characters of a SMILES; of the distances
LOSSES: tuple[Loss, ...] = (mean_of_means, global_mean)


def main() -> None:
    """Both losses on two and four ranks, against one process."""
    torch.set_num_threads(1)
    conformers, passed = sample(64)
    atoms = sum(len(one.places) for one in conformers)
    print(f"{len(conformers)} molecules, {atoms} atoms; {passed} passed over\n")
    right = gradient(conformers, mean_of_means)  # one process has all atoms
    print("ranks, dealt  mean of means  global mean  atoms by rank")
    for world in (2, 4):
        for name, shares in deals(conformers, world).items():
            found = in_a_group(world, on_rank, shares)[0]
            errors = [off(found[one.__name__], right) for one in LOSSES]
            counts = [sum(len(c.places) for c in share) for share in shares]
            # Below it is reduction order, another on each machine.
            small = "< 1e-5" if errors[1] < 1e-5 else f"{errors[1]:.1%}"
            print(
                f"{world}, {name:11}{errors[0]:13.1%}{small:>13}"
                f"  {' '.join(map(str, counts))}"
            )


if __name__ == "__main__":
    main()
