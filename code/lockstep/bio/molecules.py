"""Molecules by name: canonical, parent, without stereo, tautomer, scaffold.

One compound has many SMILES, and a set that was merged from several sources
has several of them. Each function here takes an RDKit molecule and gives a
name which more of them share than the one before. `parse` refuses what RDKit
refuses, with the reason in one line; `read` counts it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
from rdkit import Chem, rdBase
from rdkit.Chem import rdFingerprintGenerator, rdMolHash
from rdkit.Chem.MolStandardize import rdMolStandardize
from rdkit.Chem.Scaffolds import MurckoScaffold

from .datasets import counterions

RADIUS, BITS = 2, 2048  # of Morgan fingerprints: bonds around an atom; length
BLOCK = 1024  # rows of a similarity matrix that are unpacked at a time


# --8<-- [start:parse]
def parse(smiles: str) -> Chem.Mol:
    """Parse the molecule of a SMILES.

    Raises:
        ValueError: RDKit refuses it, or it has no atom.
    """
    with rdBase.BlockLogs():  # its own lines name no row
        drawn = Chem.MolFromSmiles(smiles, sanitize=False)
        if drawn is None:
            raise ValueError(f"SMILES {smiles!r}: cannot be read")
        if not drawn.GetNumAtoms():  # RDKit accepts the empty string
            raise ValueError(f"SMILES {smiles!r}: no atom")
        if problems := Chem.DetectChemistryProblems(drawn):
            raise ValueError(f"SMILES {smiles!r}: {problems[0].Message()}")
        return Chem.MolFromSmiles(smiles)


@dataclass(frozen=True)
class Read:
    """What became of a list of SMILES; every row is in one of the two."""

    molecules: dict[int, Chem.Mol]  # by row of the list
    refused: dict[int, str]  # why, by row


def read(smiles: Iterable[str]) -> Read:
    """Each row's molecule, or why there is none."""
    found = Read({}, {})
    for row, one in enumerate(smiles):
        try:
            found.molecules[row] = parse(one)
        except ValueError as error:
            found.refused[row] = str(error)
    return found


# --8<-- [end:parse]
def column(lines: Iterable[str]) -> Iterator[str]:
    """Yield each line's SMILES, the text before a blank or a comma."""
    return (re.split(r"[\s,]", line, maxsplit=1)[0] for line in lines)


# --8<-- [start:names]
def canonical(molecule: Chem.Mol) -> str:
    """One SMILES for all ways to write the molecule."""
    return Chem.MolToSmiles(molecule)


def parent(molecule: Chem.Mol) -> str:
    """...and for all of its salts, isotopes and charges: without common
    counterions, solvents and bound metals, neutral where it can be."""
    return _parents(canonical(molecule))


def flat(molecule: Chem.Mol) -> str:
    """...and for all of its stereoisomers."""
    found = Chem.MolFromSmiles(parent(molecule))
    Chem.RemoveStereochemistry(found)
    return Chem.MolToSmiles(found)


def tautomer(molecule: Chem.Mol) -> str:
    """...and for all tautomers that RDKit's rules reach. It lists them to
    choose one, which is slow: ask it of few."""
    with rdBase.BlockLogs():
        found = _tautomers().Canonicalize(Chem.MolFromSmiles(flat(molecule)))
    return Chem.MolToSmiles(found)


def scaffold(molecule: Chem.Mol) -> str:
    """Bemis and Murcko's (1996) of the parent: rings, what links them, and, in
    RDKit, what a double bond joins to them. Empty without rings."""
    return MurckoScaffold.MurckoScaffoldSmiles(flat(molecule))


# --8<-- [end:names]
@lru_cache(1 << 17)  # two milliseconds each, and every level asks for it
def _parents(smiles: str) -> str:
    whole = Chem.MolFromSmiles(smiles)
    for atom in whole.GetAtoms():
        atom.SetIsotope(0)
    with rdBase.BlockLogs():
        parts = stripped(Chem.GetMolFrags(Chem.RemoveHs(whole), asMols=True))
        names = sorted({canonical(one) for one in parts})
        if all(map(is_counterion, parts)):  # a salt of two: none is the parent
            both = rdMolStandardize.Cleanup(Chem.MolFromSmiles(".".join(names)))
            return canonical(rdMolStandardize.Uncharger().uncharge(both))
        left = Chem.MolFromSmiles(".".join(names))
        return canonical(rdMolStandardize.ChargeParent(left))


def stripped(parts: Sequence[Chem.Mol]) -> Sequence[Chem.Mol]:
    """Remove counterions: first parts without carbon, then the organic ones, as
    long as a part is left."""
    for goes in (_is_inorganic, is_counterion):
        parts = [one for one in parts if not goes(one)] or parts
    return parts


def _is_inorganic(part: Chem.Mol) -> bool:
    carbon = any(atom.GetAtomicNum() == 6 for atom in part.GetAtoms())
    return not carbon and is_counterion(part)


def is_counterion(part: Chem.Mol) -> bool:
    """Whether ChEMBL's list of salts and solvents has it, in any charge."""
    size = part.GetNumAtoms(), part.GetNumBonds()
    return any(map(part.HasSubstructMatch, _counterions().get(size, ())))


@cache
def _counterions() -> dict[tuple[int, int], list[Chem.Mol]]:
    """Group patterns by atoms and bonds: one of equal size covers a part."""
    found: dict[tuple[int, int], list[Chem.Mol]] = {}
    for smarts in counterions().values():
        one = Chem.MolFromSmarts(smarts)
        size = one.GetNumAtoms(), one.GetNumBonds()
        found.setdefault(size, []).append(one)
    return found


@cache
def _tautomers() -> Any:
    return rdMolStandardize.TautomerEnumerator()


def skeleton(molecule: Chem.Mol) -> str:
    """Return what all tautomers of a parent share: its formula, and its atoms
    joined by bonds of no kind. It is fast, so it chooses pairs for `tautomer`.
    """
    whole = Chem.MolFromSmiles(flat(molecule))
    kind = rdMolHash.HashFunction
    return " ".join(
        rdMolHash.MolHash(whole, one)
        for one in (kind.MolFormula, kind.ElementGraph)
    )


@cache
def _morgan() -> Any:
    return rdFingerprintGenerator.GetMorganGenerator(RADIUS, fpSize=BITS)


def fingerprints(molecules: Sequence[Chem.Mol]) -> np.ndarray:
    """Morgan fingerprints (Rogers and Hahn, 2010), uint8
    [molecules, BITS / 8]: eight bits a byte."""
    rows = [_morgan().GetFingerprintAsNumPy(one) for one in molecules]
    return np.packbits(np.array(rows, np.uint8).reshape(-1, BITS), axis=1)


def tanimoto(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Shared bits over all bits of packed fingerprints: float32 [len(a),
    len(b)], 0 where neither has any."""
    right = np.unpackbits(b, axis=1).astype("f4")
    found = np.empty((len(a), len(b)), "f4")
    for start in range(0, len(a), BLOCK):
        left = np.unpackbits(a[start : start + BLOCK], axis=1).astype("f4")
        both = left @ right.T  # counts, exact in float32
        either = left.sum(1)[:, None] + right.sum(1) - both
        found[start : start + BLOCK] = both / np.maximum(either, 1)
    return found


def nearest(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the greatest similarity of each row to a row of `b`: float32
    [len(a)]. Memory doesn't grow with the product of the two."""
    found = np.zeros(len(a), "f4")
    for start in range(0, len(b), BLOCK):
        part = b[start : start + BLOCK]
        for at in range(0, len(a), BLOCK):
            rows = slice(at, at + BLOCK)
            near = tanimoto(a[rows], part).max(axis=1)
            found[rows] = np.maximum(found[rows], near)
    return found
