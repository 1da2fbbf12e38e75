"""Which proteins are relatives: a profile search of each against all.

Identity of aligned residues finds close relatives only. HMMER's phmmer makes a
profile of a sequence and finds homologs far below 30 % identity. pyhmmer brings
it as a wheel, so nothing else has to be installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components

# An E-value grows with the sequences that are searched. It is given for so many
# whatever is searched, so that a pair's score depends on the pair alone.
SEARCHED = 10_000


def scores(queries: Sequence[str], targets: Sequence[str]) -> np.ndarray:
    """-log10 of phmmer's E-value, float32 [len(queries), len(targets)]: 0
    without a hit, infinity for equal sequences."""
    from pyhmmer.hmmer import phmmer

    asked, searched = map(_block, (queries, targets))
    found = np.zeros((len(queries), len(targets)), "f4")
    for row, hits in enumerate(phmmer(asked, searched, cpus=1, Z=SEARCHED)):
        for hit in hits:
            least = max(hit.evalue, 1e-300)
            found[row, int(hit.name)] = max(0.0, -np.log10(least))
    columns: dict[str, list[int]] = {}
    for column, one in enumerate(targets):
        columns.setdefault(one, []).append(column)
    for row, one in enumerate(queries):
        found[row, columns.get(one, [])] = np.inf
    return found


def _block(sequences: Sequence[str]) -> Any:
    """Return the sequences as pyhmmer takes them, each named by its place."""
    from pyhmmer.easel import Alphabet, DigitalSequenceBlock, TextSequence

    amino = Alphabet.amino()
    named = (
        TextSequence(name=f"{row}".encode(), sequence=one)
        for row, one in enumerate(sequences)
    )
    return DigitalSequenceBlock(amino, [one.digitize(amino) for one in named])


def related(sequences: Sequence[str], least: float = 5.0) -> list[str]:
    """Return each sequence's family, named by the member that sorts first.
    Relatives of relatives are one family, so no homolog is left outside."""
    near = scores(sequences, sequences) >= least
    _, of = connected_components(near, directed=False)
    names: dict[int, str] = {}
    for one, family in sorted(zip(sequences, of, strict=True)):
        names.setdefault(int(family), one)
    return [names[int(family)] for family in of]
