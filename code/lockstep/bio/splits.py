"""Which side of a split a group lies on: a function of its name and a seed.

No list is shuffled, so there is nothing for ranks to agree on, and nothing
moves when data are added. What is kept apart is a matter of the groups:
molecules, scaffolds, clusters, sequence families. Time needs no seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from hashlib import blake2b

import numpy as np
from rdkit.ML.Cluster import Butina
from scipy.sparse.csgraph import connected_components

from .molecules import fingerprints, flat, parse, scaffold, tanimoto

SHARES = {"train": 0.8, "valid": 0.1, "test": 0.1}
Split = dict[str, np.ndarray]  # int64 rows, by part
Similarity = Callable[[Sequence[str], Sequence[str]], np.ndarray]


# --8<-- [start:side]
def fraction(group: str, seed: int) -> float:
    """Where a group lies in [0, 1): the same in every process, and whatever
    other groups there are."""
    key = seed.to_bytes(8, "little")
    digest = blake2b(group.encode(), digest_size=8, key=key).digest()
    return (int.from_bytes(digest, "little") >> 11) * 2.0**-53


def side(
    group: str,
    seed: int,
    shares: Mapping[str, float] = SHARES,
    pinned: Mapping[str, str] = {},
) -> str:
    """The part of a group. One that is pinned lies where it is told to."""
    if group in pinned:
        return pinned[group]
    end, at = 0.0, fraction(group, seed)
    for part, share in shares.items():
        end += share
        if at < end:
            return part
    return part  # the shares' sum was rounded down


# --8<-- [end:side]
def split(
    groups: Sequence[str],
    seed: int,
    shares: Mapping[str, float] = SHARES,
    pinned: Mapping[str, str] = {},
) -> Split:
    """Rows of each part; a group lies whole in one of them.

    Raises:
        ValueError: shares do not sum to 1, a group is pinned to no part, or
            one that nobody pinned is larger than the smallest part.
    """
    if abs(sum(shares.values()) - 1) > 1e-9 or min(shares.values()) <= 0:
        raise ValueError(f"shares are positive and sum to 1, not {shares}")
    if unknown := {*pinned.values()} - {*shares}:
        raise ValueError(f"no part is called {', '.join(sorted(unknown))}")
    small = min(shares, key=shares.__getitem__)
    sides = {one: side(one, seed, shares, pinned) for one in {*groups}}
    for group, count in Counter(groups).most_common():
        if count <= shares[small] * len(groups):
            break
        if group not in pinned:
            raise ValueError(
                f"group {group!r} has {count} of {len(groups)} rows, and"
                f" {small} is to have {shares[small]:.0%}: pin it to a part"
                f" (it lies in {sides[group]})"
            )
    own = np.array([sides[one] for one in groups], object)
    return {part: np.flatnonzero(own == part) for part in shares}


# --8<-- [start:groups]
def by_molecule(smiles: Sequence[str]) -> list[str]:
    """A random split's groups: salts, charges and stereoisomers together."""
    return [flat(parse(one)) for one in smiles]


def by_scaffold(smiles: Sequence[str]) -> list[str]:
    """Bemis-Murcko scaffolds. Molecules without rings have none in common, so
    each is its own group."""
    molecules = [parse(one) for one in smiles]
    return [scaffold(one) or f"acyclic {flat(one)}" for one in molecules]


# --8<-- [end:groups]
# --8<-- [start:centers]
@dataclass(frozen=True)
class Centers:
    """Clusters that stay as they are: written down with the split."""

    names: tuple[str, ...]  # SMILES or sequences
    least: float  # similarity to a center, or an item is its own group
    similarity: Similarity

    def groups(self, items: Sequence[str]) -> list[str]:
        """The nearest center of each item: of equal ones the first. It is a
        function of the item and the centers, of no other item."""
        found = self.similarity(items, self.names)
        near, best = found.argmax(axis=1), found.max(axis=1)
        return [
            self.names[at] if value >= self.least else f"alone {item}"
            for item, at, value in zip(items, near, best, strict=True)
        ]


# --8<-- [end:centers]
def alike(a: Sequence[str], b: Sequence[str]) -> np.ndarray:
    """Tanimoto similarity of parents without stereo, float32
    [len(a), len(b)]."""
    left, right = (
        fingerprints([parse(flat(parse(one))) for one in names])
        for names in (a, b)
    )
    return tanimoto(left, right)


def butina(smiles: Sequence[str], least: float = 0.6) -> Centers:
    """Centers of Butina's clusters (1999), the largest first. It holds all
    pairs: for tens of thousands of molecules, not for millions."""
    names = sorted({flat(parse(one)) for one in smiles})  # in no one's order
    found = alike(names, names)
    lower = 1 - found[np.tril_indices(len(names), -1)]
    clusters = Butina.ClusterData(
        lower, len(names), 1 - least, isDistData=True, reordering=True
    )
    return Centers(tuple(names[one[0]] for one in clusters), least, alike)


def by_component(smiles: Sequence[str], least: float = 0.6) -> list[str]:
    """Molecules that a chain of neighbors at `least` or above joins. Only
    this leaves no neighbor on another side; an added molecule may join two
    groups, so freeze the data before it."""
    names = by_molecule(smiles)
    _, of = connected_components(alike(names, names) >= least)
    first: dict[int, str] = {}
    for name, component in sorted(zip(names, of, strict=True)):
        first.setdefault(component, name)
    return [first[component] for component in of]


def identity(a: Sequence[str], b: Sequence[str]) -> np.ndarray:
    """1 - edit distance / length of the longer sequence: float32
    [len(a), len(b)]. For thousands; beyond, group by MMseqs2's clusters."""
    width = max(map(len, b))
    right = np.zeros((len(b), width), np.uint8)
    for row, one in zip(right, b, strict=True):
        row[: len(one)] = np.frombuffer(one.encode(), np.uint8)
    steps, ends = np.arange(width + 1), np.array([len(one) for one in b])
    found = np.empty((len(a), len(b)), "f4")
    for row, one in zip(found, a, strict=True):
        best = np.tile(steps, (len(b), 1))  # of a prefix to each prefix of b
        for i, residue in enumerate(one.encode(), 1):
            changed = best[:, :-1] + (right != residue)
            best[:, 1:] = np.minimum(best[:, 1:] + 1, changed)
            best[:, 0] = i
            # Insertions run along the row: the least so far, plus the steps.
            best = np.minimum.accumulate(best - steps, axis=1) + steps
        least = best[np.arange(len(b)), ends]
        row[:] = 1 - least / np.maximum(ends, len(one))
    return found


def families(sequences: Sequence[str], least: float = 0.3) -> Centers:
    """Representatives of sequence families, found greedily, the longest first
    (as CD-HIT does; Li and Godzik, 2006)."""
    chosen: list[str] = []
    for one in sorted({*sequences}, key=lambda s: (-len(s), s)):
        if not chosen or identity([one], chosen).max() < least:
            chosen.append(one)
    return Centers(tuple(chosen), least, identity)


def by_time(
    groups: Sequence[str],
    dates: Sequence[date],
    starts: Mapping[str, date],
) -> Split:
    """Rows by the day on which a group was first seen: train before all of
    `starts`, then the part that last started. A compound that is measured
    again stays where it was.

    Raises:
        ValueError: starts are not in order of time.
    """
    if list(starts.values()) != sorted(starts.values()):
        raise ValueError("parts start one after the other, in order of time")
    first: dict[str, date] = {}
    for group, day in zip(groups, dates, strict=True):
        first[group] = min(day, first.get(group, day))
    parts = ["train", *starts]
    own = np.array(
        [sum(first[one] >= s for s in starts.values()) for one in groups]
    )
    return {part: np.flatnonzero(own == i) for i, part in enumerate(parts)}
