"""A molecule, its mirror image, and the tests that do not tell them apart.

    python -m lockstep.bio.chirality

The molecule is ibuprofen, with a conformer by RDKit's ETKDG.
"""

from collections import defaultdict
from collections.abc import Callable
from contextlib import nullcontext
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
import torch
from rdkit import Chem
from rdkit.Chem.rdDistGeom import EmbedMolecule
from scipy.stats import ortho_group
from torch import Tensor, nn

from .datasets import Assays, chembl
from .geometry import (
    EGNN,
    TF32,
    Anchored,
    ChiralEGNN,
    Layer,
    centered,
    equivariance_error,
    rotations,
)

IBUPROFEN = "CC(C)Cc1ccc(cc1)[C@H](C)C(=O)O"
FEATURES = 8


def conformer(smiles: str, seed: int = 7) -> Chem.Mol:
    """With hydrogens and positions.

    Raises:
        ValueError: RDKit cannot read it, or finds no positions.
    """
    if (molecule := Chem.MolFromSmiles(smiles)) is None:
        raise ValueError(f"RDKit cannot read the SMILES {smiles!r}")
    molecule = Chem.AddHs(molecule)
    if EmbedMolecule(molecule, randomSeed=seed):
        raise ValueError(f"RDKit finds no conformer of {smiles!r}")
    return molecule


def atoms(molecule: Chem.Mol) -> tuple[Tensor, Tensor]:
    """Features (atoms, 8), which are of the element alone, and positions
    (atoms, 3) in Å, both in 64 bits."""
    numbers = torch.tensor([one.GetAtomicNum() for one in molecule.GetAtoms()])
    phases = numbers[:, None] * torch.arange(1, FEATURES + 1)
    positions = molecule.GetConformer().GetPositions()
    return (phases / 8).double().sin(), torch.from_numpy(np.array(positions))


def handedness(molecule: Chem.Mol, positions: Tensor) -> list[tuple[int, str]]:
    """Atoms that are R or S at these positions, as RDKit sees them."""
    moved = Chem.Mol(molecule)
    moved.GetConformer().SetPositions(positions.double().numpy())
    Chem.AssignStereochemistryFrom3D(moved)
    return Chem.FindMolChiralCenters(moved)


def made(kind: Callable[[], nn.Module]) -> nn.Module:
    """Make a layer in 64 bits, the same every time."""
    torch.manual_seed(0)
    return kind().double()


# --8<-- [start:free]
def free(layer: Layer, h: Tensor, x: Tensor) -> tuple[float, float, float]:
    """Three tests of one layer: of a molecule that is turned about the origin;
    that is moved and goes through a pipeline which centers; that is moved."""

    def pipeline(h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        whole = torch.ones(1, len(x), dtype=torch.bool)
        features, positions = layer(h, center := centered(x[None], whole)[0])
        return features, positions - center + x

    turned = equivariance_error(layer, h, x, distance=0)["rotation"]
    recentered = equivariance_error(pipeline, h, x)["translation"]
    return turned, recentered, equivariance_error(layer, h, x)["translation"]


# --8<-- [end:free]
MODES: dict[str, tuple[torch.dtype, Callable[[], Any]]] = {
    "fp64": (torch.float64, nullcontext),
    "fp32": (torch.float32, nullcontext),
    "TF32 products": (torch.float32, TF32),
    "bf16 autocast": (
        torch.float32,
        lambda: torch.autocast("cpu", torch.bfloat16),
    ),
    "bf16": (torch.bfloat16, nullcontext),
}


def off(
    layer: nn.Module, mode: str, h: Tensor, x: Tensor, distance: float
) -> float:
    """Return the rotation's error in one of the MODES, so many Å from the
    origin."""
    dtype, context = MODES[mode]
    layer = deepcopy(layer).to(dtype)
    with context():
        found = equivariance_error(layer, h.to(dtype), x.to(dtype), distance)
    return found["rotation"]


def mirrors_among(matrices: np.ndarray) -> int:
    """How many have the determinant -1."""
    return int((np.linalg.det(matrices) < 0).sum())


# --8<-- [start:census]
def census(given: Assays) -> dict[str, int]:
    """How often the data could show whether a model tells mirror images
    apart."""
    flat = defaultdict(list)
    for row, smiles in enumerate(given.smiles):
        if "@" in smiles:
            molecule = Chem.MolFromSmiles(smiles)
            flat[Chem.MolToSmiles(molecule, isomericSmiles=False)].append(row)
    pairs = [
        (one, other)
        for rows in flat.values()
        for i, one in enumerate(rows)
        for other in rows[i + 1 :]
        if mirrored(given.smiles[one]) == Chem.CanonSmiles(given.smiles[other])
    ]
    known = ~np.isnan(given.values)
    return {
        "molecules": len(given.smiles),
        "with a stereocenter": sum(map(len, flat.values())),
        "pairs of mirror images": len(pairs),
        "measured on one target": sum(
            int((known[one] & known[other]).any()) for one, other in pairs
        ),
    }


# --8<-- [end:census]
def mirrored(smiles: str) -> str:
    """Return the mirror image, canonical."""
    molecule = Chem.MolFromSmiles(smiles)
    for one in molecule.GetAtoms():
        one.InvertChirality()
    return Chem.CanonSmiles(Chem.MolToSmiles(molecule))


def shown(error: float) -> str:
    """Format an error by its size only: rounding depends on the machine."""
    for least in (1e-12, 1e-6):
        if error < least:
            return f"{f'<{least:.0e}':>8}"
    return f"{error:8.0e}"


def main() -> None:
    """Print each test's result for each layer."""
    torch.set_num_threads(1)  # many small products
    molecule = conformer(IBUPROFEN)
    h, x = atoms(molecule)
    center = float(x.mean(0).norm())
    print(f"ibuprofen, {len(x)} atoms, {center:.2f} Å off the origin\n")
    layers = {
        "EGNN": made(EGNN),
        "chiral": made(ChiralEGNN),
        "anchored": made(Anchored),
    }
    print(f"{'':11}{'turned':>8} {'centered':>8}{'moved':>7}{'mirror':>8}")
    for name, layer in layers.items():
        mirror = equivariance_error(layer, h, x)["mirror"]
        said = "".join(map(shown, (*free(layer, h, x), mirror)))
        print(f"{name:11}{said}")
    leaky = made(partial(Anchored, leak=1e-3))
    far = 0, 10, 100, 1000
    said = "".join(f"{d:8,}" for d in far)
    print(f"\n{'turned, at Å':14}{said}   leaky, 10")
    for mode in MODES:
        errors = [off(layers["chiral"], mode, h, x, d) for d in far]
        said = "".join(map(shown, errors))
        print(f"{mode:14}{said}   {shown(off(leaky, mode, h, x, 10))}")
    drawn = {
        "ortho_group": ortho_group.rvs(3, size=1000, random_state=0),
        "rotations": rotations(0, 0, np.arange(1000)).numpy(),
    }
    print()
    for name, matrices in drawn.items():
        print(f"{mirrors_among(matrices):6,} of 1,000 {name} are mirrors")
    for name, count in census(chembl()).items():
        print(f"{count:6,} {name}")


if __name__ == "__main__":
    main()
