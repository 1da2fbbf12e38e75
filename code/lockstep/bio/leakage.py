"""What a test set shares with training: the same compounds, and neighbors.

    python -m lockstep.bio.leakage [TRAIN TEST] [--smiles COLUMN]
        [--max-same COUNT] [--max-near SIMILARITY=SHARE]

Rows that differ as text may be one compound: written otherwise, as another
salt, another stereoisomer, another tautomer. A neighbor is none of these and
still gives its label away. Without files, the NCI's compounds are split.

The exit code is 0 if a split of yours passes, 1 if it breaks a threshold, and 2
if the files or options cannot be read.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rdkit import Chem

from .datasets import nci
from .molecules import (
    canonical,
    column,
    fingerprints,
    flat,
    nearest,
    parent,
    parse,
    read,
    skeleton,
    tautomer,
)
from .splits import by_molecule, by_scaffold, split

SHARES = {"train": 0.8, "test": 0.2}
WIDTH = 24  # of the names in a table
NEAR = 0.6  # similarity from which a training molecule counts as a neighbor
FIRST = 2400  # rows of the NCI's that `main` splits
LEVELS: dict[str, Callable[[Chem.Mol], str]] = {  # each takes in the last
    "written otherwise": canonical,
    "salt, isotope, charge": parent,
    "another stereoisomer": flat,
}


# --8<-- [start:audit]
@dataclass(frozen=True)
class Audit:
    """A split's leaks. A test molecule is counted once, by the first level
    that makes it the same as one of training."""

    refused: int  # rows of either side that RDKit does not read
    same: dict[str, int]  # test molecules, by level
    nearest: np.ndarray  # float32 [test molecules], Tanimoto to training

    def share(self, least: float = NEAR) -> float:
        """Return the share of test molecules with a near neighbor in train."""
        return float((self.nearest >= least).mean())


def audit(train: Sequence[str], test: Sequence[str]) -> Audit:
    """Compare all of `test` with all of `train`, both SMILES.

    Raises:
        ValueError: RDKit reads no molecule of one of them.
    """
    seen, held = read(train), read(test)
    ours, theirs = [*seen.molecules.values()], [*held.molecules.values()]
    if not ours or not theirs:
        raise ValueError("RDKit reads no molecule of one side of the split")
    written = {*train}
    left = [m for row, m in held.molecules.items() if test[row] not in written]
    same = {"as written": len(theirs) - len(left)}
    for level, name in LEVELS.items():
        names = {name(one) for one in ours}
        others = [one for one in left if name(one) not in names]
        same[level], left = len(left) - len(others), others
    same["another tautomer"] = tautomers(ours, left)
    near = nearest(bits(theirs), bits(ours))
    return Audit(len(seen.refused) + len(held.refused), same, near)


# --8<-- [end:audit]
def tautomers(ours: Sequence[Chem.Mol], theirs: Sequence[Chem.Mol]) -> int:
    """How many of `theirs` have a tautomer in `ours`. It is slow to ask, so
    only those are asked that share a formula and a skeleton."""
    known = {skeleton(one) for one in ours}
    asked = {one: skeleton(one) for one in theirs if skeleton(one) in known}
    shared = {*asked.values()}
    names = {tautomer(one) for one in ours if skeleton(one) in shared}
    return sum(tautomer(one) in names for one in asked)


def bits(molecules: Sequence[Chem.Mol]) -> np.ndarray:
    """Fingerprints of the parents without stereo, packed."""
    return fingerprints([parse(flat(one)) for one in molecules])


def table(audits: dict[str, Audit]) -> str:
    """Audits side by side, as text."""
    width = max(map(len, audits)) + 2
    rows: dict[str, list[str]] = {"test molecules": []}
    for one in audits.values():
        rows["test molecules"].append(f"{len(one.nearest)}")
        for level, count in one.same.items():
            rows.setdefault(f"  {level}", []).append(f"{count}")
        cells = {
            "refused by RDKit": f"{one.refused}",
            "nearest, median": f"{np.median(one.nearest):.2f}",
            f"  at {NEAR} or above": f"{one.share():.0%}",
        }
        for name, cell in cells.items():
            rows.setdefault(name, []).append(cell)
    lines = ["".join([" " * WIDTH, *(f"{one:>{width}}" for one in audits)])]
    for name, found in rows.items():
        lines.append(
            "".join([f"{name:{WIDTH}}", *(f"{c:>{width}}" for c in found)])
        )
    return "\n".join(lines)


def smiles_of(path: Path, named: str | None = None) -> list[str]:
    """Read the SMILES of a file.

    A table begins with a header; its column is the one that is named, or the
    only one with "smiles" in its name. A number counts the columns of a table
    without a header from 1. Other files have a SMILES at the start of a line.

    Raises:
        OSError: the file cannot be read.
        ValueError: it has no such column.
    """
    lines = path.read_text("utf-8-sig").splitlines()
    first = lines[0] if lines else ""
    separator = "\t" if "\t" in first and path.suffix != ".csv" else ","
    cells = next(csv.reader([first], delimiter=separator), [])
    heads = [one for one in cells if "smiles" in one.lower()]
    tabular = path.suffix in (".csv", ".tsv") or heads
    if not tabular and not (named and separator in first):
        return [*column(lines)]
    rows = [one for one in csv.reader(lines, delimiter=separator) if one]
    if named and named.isdecimal():
        at = int(named) - 1
        if not 0 <= at < len(cells):
            raise ValueError(f"{path}: {len(cells)} columns, none is {named}")
    else:
        fits = [one for one in cells if one == named] if named else heads
        if len(fits) != 1:
            raise ValueError(
                f"{path}: name the column of SMILES with --smiles. Its first"
                f" line is {', '.join(cells)}"
            )
        at, rows = cells.index(fits[0]), rows[1:]
    return [*column(row[at] if at < len(row) else "" for row in rows)]


def broken(found: Audit, same: int, near: Sequence[str]) -> list[str]:
    """Return the thresholds that a split breaks, each in a line.

    Raises:
        ValueError: one of `near` is not SIMILARITY=SHARE.
    """
    lines = []
    if (count := sum(found.same.values())) > same:
        lines.append(f"{count} test molecules are in training, at most {same}")
    for one in near:
        try:
            least, most = map(float, one.split("="))
        except ValueError:
            raise ValueError(f"--max-near {one}: not like 0.6=0.05") from None
        if (share := found.share(least)) > most:
            lines.append(
                f"{share:.1%} have a neighbor at {least:g} or above, at most"
                f" {most:.1%}"
            )
    return lines


def main(args: Sequence[str] = ()) -> int:
    """Two files, or compounds as they come, split by row and by group."""
    parser = argparse.ArgumentParser(
        "python -m lockstep.bio.leakage",
        description="Count what a test set shares with training.",
    )
    add = parser.add_argument
    add("files", nargs="*", type=Path, metavar="FILE", help="TRAIN and TEST")
    add("--smiles", help="Column of SMILES: its name, or its number")
    add("--max-same", type=int, default=0, help="Test molecules in training")
    add(
        "--max-near",
        action="append",
        default=[],
        metavar="SIMILARITY=SHARE",
        help="Largest share of test molecules with such a neighbor",
    )
    given = parser.parse_args(args)
    if not given.files:
        return example()
    if len(given.files) != 2:
        print("error: give two files, TRAIN and TEST", file=sys.stderr)
        return 2
    try:
        train, test = (smiles_of(one, given.smiles) for one in given.files)
        found = audit(train, test)
        lines = broken(found, given.max_same, given.max_near)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(table({"yours": found}))
    for line in lines:
        print(f"broken: {line}")
    return 1 if lines else 0


def example() -> int:
    """Rows split at random, and by group."""
    smiles = nci()[:FIRST]
    found = read(smiles)
    for row, why in [*found.refused.items()][:2]:
        print(f"row {row}: {why}")
    print(f"...{len(found.refused)} of {len(smiles)} rows are refused\n")
    kept = [smiles[row] for row in found.molecules]
    groups = {
        "row": [f"{row}" for row in range(len(kept))],
        "molecule": by_molecule(kept),
        "scaffold": by_scaffold(kept),
    }
    pinned = {"c1ccccc1": "train"}  # a fifth of all: too large for a test set
    audits = {}
    for name, group in groups.items():
        rows = split(group, 0, SHARES, pinned if name == "scaffold" else {})
        sides = ([kept[row] for row in rows[part]] for part in SHARES)
        audits[name] = audit(*sides)
    print(table(audits))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
