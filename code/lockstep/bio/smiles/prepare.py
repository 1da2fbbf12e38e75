"""From lines of SMILES to a store: refused, canonical, each molecule once.

    python -m lockstep.bio.smiles.prepare LINES STORE

All that RDKit has to say is said here, once, before a rank starts. The result
does not depend on how many processes worked, nor on the order of the lines:
molecules lie sorted by their canonical text.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from rdkit import Chem, rdBase

from lockstep.bio.molecules import column, read
from lockstep.bio.splits import side

from .store import SHARD, write
from .tokens import Tokens, frequent

CHUNK = 1000  # lines of a task
SHARES = {"train": 0.99, "test": 0.01}


# --8<-- [start:canonical]
class Line(NamedTuple):
    """What became of a line: one of the two is empty."""

    canonical: str
    refused: str  # why


def canonical(smiles: str) -> Line:
    """One SMILES for all ways to write the molecule, or why there is none."""
    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(smiles)
    if molecule is not None and molecule.GetNumAtoms():
        return Line(Chem.MolToSmiles(molecule), "")
    again = read([smiles])  # for the reason
    return Line("", again.refused.get(0, "cannot be read"))


def all_canonical(lines: Iterable[str], processes: int = 1) -> Iterator[Line]:
    """Yield each line's result, in the order of lines. Few tasks
    are ahead, where `Pool.imap` would read all lines into memory first."""
    rest = iter(lines)
    chunks = iter(lambda: list(islice(rest, CHUNK)), [])
    with ProcessPoolExecutor(processes, get_context("fork")) as pool:
        tasks = (pool.submit(_chunk, one) for one in chunks)
        ahead = deque(islice(tasks, 2 * processes))
        while ahead:
            yield from ahead.popleft().result()
            ahead.extend(islice(tasks, 1))


# --8<-- [end:canonical]
def _chunk(lines: list[str]) -> list[Line]:
    return [canonical(one) for one in lines]


# --8<-- [start:unique]
def unique(unsorted: Path, sorted_: Path, memory: str = "256M") -> None:
    """Lines by their text before the tab, the first of those that are equal.

    An external sort: exact, in bounded memory. Under another locale than C,
    texts may compare as equal that are not.
    """
    key = "--field-separator=\t", "--key=1,1", "--stable", "--unique"
    room = f"--buffer-size={memory}", f"--temporary-directory={sorted_.parent}"
    subprocess.run(
        ["sort", *key, *room, f"--output={sorted_}", str(unsorted)],
        check=True,
        env=os.environ | {"LC_ALL": "C"},
    )


# --8<-- [end:unique]
class Prepared(NamedTuple):
    """How many lines became what."""

    lines: int
    refused: int
    again: int  # molecules that an earlier line has
    train: int
    test: int


def prepare(
    lines: Iterable[str],
    folder: Path,
    processes: int = 1,
    memory: str = "256M",
    shard: int = SHARD,
) -> Prepared:
    """Write stores `train` and `test`, and a list of refused lines next to
    them. A digest of the text decides the side, so a salt may lie opposite its
    parent."""
    folder.mkdir(parents=True, exist_ok=True)
    draft, once = folder / "draft.tsv", folder / "unique.tsv"
    number = refused = 0
    with draft.open("w") as kept, (folder / "refused.jsonl").open("w") as list_:
        for number, one in enumerate(all_canonical(lines, processes), 1):
            if one.refused:
                refused += 1
                why = {"line": number - 1, "why": one.refused}
                list_.write(json.dumps(why) + "\n")
            else:
                kept.write(f"{one.canonical}\t{number - 1}\n")
    unique(draft, once, memory)
    tokens = Tokens(frequent(texts(once)))
    counts = {
        part: write(
            folder / part,
            (one for one in texts(once) if side(one, 0, SHARES) == part),
            tokens,
            shard,
        )
        for part in SHARES
    }
    draft.unlink()
    again = number - refused - sum(counts.values())
    return Prepared(number, refused, again, counts["train"], counts["test"])


def texts(path: Path) -> Iterator[str]:
    """Yield the text before each line's tab."""
    with path.open() as file:
        for line in file:
            yield line.partition("\t")[0]


def main(args: Sequence[str]) -> int:
    """Make a store of a file's first column, on all cores."""
    if len(args) != 2:
        print("error: give a file and a folder, LINES STORE", file=sys.stderr)
        return 2
    lines, store = map(Path, args)
    try:
        with lines.open() as file:  # before anything of an old store is lost
            made = prepare(column(file), store, os.cpu_count() or 1)
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for name, count in made._asdict().items():
        print(f"{name:8}{count:15,}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
