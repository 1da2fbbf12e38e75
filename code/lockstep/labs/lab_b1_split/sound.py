"""A split that no rank has to tell another, and an audit that all make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


# --8<-- [start:side]
def group_of(key: str, scaffold: str) -> str:
    """The name of what must not be cut: molecules of one scaffold. Two without
    rings have nothing in common, unless they are the same."""
    return f"scaffold {scaffold}" if scaffold else f"molecule {key}"


def fraction(group: str, seed: int) -> float:
    """Where a group lies in [0, 1)."""
    key = (seed % 2**64).to_bytes(8, "little")
    digest = blake2b(group.encode(), digest_size=8, key=key).digest()
    return (int.from_bytes(digest, "little") >> 11) * 2.0**-53


def side(
    group: str,
    seed: int,
    shares: Mapping[str, float],
    pinned: Mapping[str, str],
) -> str:
    """The part of a group.

    It depends on the arguments alone: not on the process, other groups or their
    sizes. Of many groups each part has its share, and another seed draws again.

    Args:
        pinned: parts of those groups that somebody has placed.
    """
    if group in pinned:
        return pinned[group]
    end, at = 0.0, fraction(group, seed)
    for part, share in shares.items():
        end += share
        if at < end:
            return part
    return part  # the shares' sum was rounded down


# --8<-- [end:side]
# --8<-- [start:split]
def everyone(mine: Any) -> list[Any]:
    """What each rank has; every rank has to call."""
    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, mine)
    return found


def assign(
    groups: Sequence[str],
    seed: int,
    shares: Mapping[str, float],
    pinned: Mapping[str, str],
) -> list[str]:
    """The part of each of this rank's groups."""
    counts: Counter[str] = sum(everyone(Counter(groups)), Counter())
    most = min(shares.values()) * counts.total()
    for group, count in counts.most_common():
        if count > most and group not in pinned:  # so all ranks raise
            raise ValueError(
                f"{group} has {count} of {counts.total()} rows: pin it"
            )
    return [side(one, seed, shares, pinned) for one in groups]


def split(
    keys: Sequence[str],
    scaffolds: Sequence[str],
    seed: int,
    shares: Mapping[str, float],
    pinned: Mapping[str, str],
) -> list[str]:
    """The part of each of this rank's rows.

    Raises:
        ValueError: a group that is not pinned has more of all ranks' rows than
            the smallest share. Every rank raises it, in one line that has the
            group's name.
    """
    groups = [group_of(*row) for row in zip(keys, scaffolds, strict=True)]
    return assign(groups, seed, shares, pinned)


# --8<-- [end:split]
# --8<-- [start:audit]
def tanimoto(a: Tensor, b: Tensor) -> Tensor:
    """Similarities, float64 [len(a), len(b)]."""
    a, b = a.double(), b.double()
    both = a @ b.T
    either = a.sum(1)[:, None] + b.sum(1) - both
    return both / either.clamp(min=1)


def nearest(test: Tensor, train: Tensor) -> Tensor:
    """Of each test molecule of this rank, the similarity of the nearest
    training molecule of any rank.

    The similarity of two fingerprints is Tanimoto's: bits that both have over
    bits that one has; 0, if there is none.

    Args:
        test: bool [rows, bits], this rank's.
        train: bool [rows, bits], this rank's; as many bits.

    Returns:
        Float [test rows]; 0 where no rank has a training molecule.
    """
    rows = torch.tensor(len(train))
    dist.all_reduce(rows, dist.ReduceOp.MAX)
    # No bits are similar to nothing, so nobody sees who has fewer rows.
    own = torch.zeros(int(rows), train.shape[1], dtype=torch.uint8)
    own[: len(train)] = train
    best = torch.zeros(len(test), dtype=torch.float64)
    for rank in range(dist.get_world_size()):
        theirs = own.clone()
        dist.broadcast(theirs, rank)  # one rank's rows at a time in memory
        if len(theirs):
            best = best.maximum(tanimoto(test, theirs).amax(1))
    return best


def audit(near: Tensor, least: float) -> dict[str, float]:
    """What all ranks' test molecules have for neighbors, alike on each rank.

    Args:
        near: of `nearest`, this rank's.

    Returns:
        "molecules": how many there are; "near": the share of them with a
        neighbor of similarity `least` or above; "median": of all
        similarities, the mean of the two in the middle if there are two.

    Raises:
        ValueError: no rank has a test molecule. Every rank raises it.
    """
    every = torch.cat(everyone(near.double()))
    if not len(every):
        raise ValueError("no rank has a test molecule")
    return {
        "molecules": len(every),
        "near": float((every >= least).double().mean()),
        "median": float(every.quantile(0.5)),
    }


# --8<-- [end:audit]
