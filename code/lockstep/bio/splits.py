"""Which side of a split a group lies on: a function of its name and a seed.

No list is shuffled, so there is nothing for ranks to agree on, and nothing
moves when data are added. What is kept apart is a matter of the groups:
molecules, scaffolds, clusters, sequence families. Time needs no seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from hashlib import blake2b

import numpy as np
from rdkit.ML.Cluster import Butina
from scipy.sparse.csgraph import connected_components

from .homology import scores
from .molecules import fingerprints, flat, parse, scaffold, tanimoto

SHARES = {"train": 0.8, "valid": 0.1, "test": 0.1}
Split = dict[str, np.ndarray]  # int64 rows, by part
Similarity = Callable[[Sequence[str], Sequence[str]], np.ndarray]
Cluster = Callable[[Sequence[str]], tuple[str, ...]]  # centers of all items


# --8<-- [start:side]
def fraction(group: str, seed: int) -> float:
    """Where a group lies in [0, 1): the same in every process, and whatever
    other groups there are."""
    key = (seed % 2**64).to_bytes(8, "little")
    digest = blake2b(group.encode(), digest_size=8, key=key).digest()
    return (int.from_bytes(digest, "little") >> 11) * 2.0**-53


def side(
    group: str,
    seed: int,
    shares: Mapping[str, float] = SHARES,
    pinned: Mapping[str, str] = {},
) -> str:
    """Return the part of a group. A pinned group is in the part that it is
    pinned to."""
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
    """Return a random split's groups: salts, charges and stereoisomers
    together."""
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
    """Clusters that only grow: written down with the split."""

    versions: tuple[tuple[str, ...], ...]  # SMILES or sequences, oldest first
    least: float  # similarity to a center
    similarity: Similarity
    cluster: Cluster

    def groups(self, items: Sequence[str]) -> list[str]:
        """Return the nearest center of each item, in the oldest version that
        has a near one. So appended items move no earlier item.

        Raises:
            ValueError: an item is near no center.
        """
        found = self._nearest(items)
        if beyond := found.count(""):
            raise ValueError(
                f"{beyond} of {len(items)} items are near no center: append"
                " theirs with `extended`, and write the centers down again"
            )
        return found

    def extended(self, items: Sequence[str]) -> Centers:
        """With the centers of what lies beyond all, as a version of its own:
        a new cluster is a group and stays whole."""
        nearest = zip(items, self._nearest(items), strict=True)
        beyond = [item for item, center in nearest if not center]
        if not beyond:
            return self
        versions = (*self.versions, self.cluster(beyond))
        return replace(self, versions=versions)

    def _nearest(self, items: Sequence[str]) -> list[str]:
        found = [""] * len(items)
        for centers in self.versions:
            left = [row for row, center in enumerate(found) if not center]
            if not left:
                break
            near = self.similarity([items[row] for row in left], centers)
            best = zip(left, near.argmax(1), near.max(1), strict=True)
            for row, at, value in best:
                if value >= self.least:
                    found[row] = centers[at]
        return found


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
    cluster = partial(_butina, least=least)
    return Centers((), least, alike, cluster).extended(smiles)


def _butina(smiles: Sequence[str], least: float) -> tuple[str, ...]:
    names = sorted({flat(parse(one)) for one in smiles})  # in no one's order
    apart = alike(names, names) < least
    clusters = Butina.ClusterData(
        apart[np.tril_indices(len(names), -1)],
        len(names),
        0.5,  # between near, 0, and apart, 1
        isDistData=True,
        reordering=True,
    )
    return tuple(names[one[0]] for one in clusters)


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


def families(sequences: Sequence[str], least: float = 5.0) -> Centers:
    """Return representatives of protein families, the longest first: what a
    profile search finds with one, at an E-value of 10^-least or below, is its
    family."""
    cluster = partial(_longest_first, least=least)
    return Centers((), least, scores, cluster).extended(sequences)


def _longest_first(sequences: Sequence[str], least: float) -> tuple[str, ...]:
    names = sorted({*sequences}, key=lambda one: (-len(one), one))
    near, chosen = scores(names, names) >= least, []
    left = np.ones(len(names), bool)
    for at, name in enumerate(names):
        if left[at]:
            chosen.append(name)
            left &= ~near[:, at]
    return tuple(chosen)


def by_time(
    groups: Sequence[str],
    dates: Sequence[date],
    starts: Mapping[str, date],
) -> Split:
    """Rows by the day on which a group was first seen: train before all of
    `starts`, then the part that last started.

    A group that is measured again in a later part's time stays where it was,
    and that row is in no part: training cannot have what came after the cut.

    Raises:
        ValueError: starts are not in order of time.
    """
    if list(starts.values()) != sorted(starts.values()):
        raise ValueError("parts start one after the other, in order of time")
    first: dict[str, int] = {}
    when = [sum(day >= start for start in starts.values()) for day in dates]
    for group, part in zip(groups, when, strict=True):
        first[group] = min(part, first.get(group, part))
    parts = ["train", *starts]
    own = np.array([first[one] for one in groups])
    kept = own == np.array(when)
    return {
        part: np.flatnonzero(kept & (own == i)) for i, part in enumerate(parts)
    }
