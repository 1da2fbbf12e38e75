"""What a generator may claim: validity, uniqueness and novelty, over all ranks.

Each rank has molecules that it drew and a shard of the training set. A name
belongs to one rank by its digest, and every rank sends each name there: so all
copies meet, and nobody holds the whole of either.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

START, END = "^", "$"  # neither is a letter of SMILES at its place


class Chain:
    """Letters drawn by the letters before them: the smallest generator that
    writes molecules at all.

    Args:
        smiles: what it learns from.
        order: by how many letters before.
    """

    def __init__(self, smiles: Iterable[str], order: int = 10) -> None:
        self.order = order
        self.after: dict[str, list[str]] = defaultdict(list)
        for one in smiles:
            text = START * order + one + END
            for n in range(len(one) + 1):
                self.after[text[n : n + order]].append(text[n + order])

    # --8<-- [start:draw]
    def draw(self, seed: int, number: int, most: int = 200) -> str:
        """Draw the molecule of that number, a function of seed and number
        alone, whichever rank asks for it and when."""
        rng = np.random.default_rng([seed, number])
        text = START * self.order
        while len(text) < self.order + most:
            choice = self.after[text[-self.order :]]
            letter = choice[rng.integers(len(choice))]
            if letter == END:
                break
            text += letter
        return text[self.order :]

    # --8<-- [end:draw]


@dataclass(frozen=True)
class Counts:
    """On all ranks together."""

    drawn: int
    valid: int  # of them, with copies
    distinct: int  # molecules among the valid
    novel: int  # of the distinct, not in the training set

    def __str__(self) -> str:
        return (
            f"valid {self.valid / self.drawn:.3f}"
            f"  unique {self.distinct / max(self.valid, 1):.3f}"
            f"  novel {self.novel / max(self.distinct, 1):.3f}"
        )


# --8<-- [start:counts]
def counts(
    drawn: Sequence[str | None],
    training: Iterable[str],
    group: dist.ProcessGroup | None = None,
) -> Counts:
    """Exact, in memory of one rank's part.

    Args:
        drawn: a name for each molecule that this rank drew, None where it is
            none; canonical, or else two spellings are two molecules.
        training: the names of this rank's shard, canonical likewise.
    """
    valid = [name for name in drawn if name is not None]
    mine = met(valid, group)
    known = met(training, group)
    sizes = [len(drawn), len(valid), len(mine), len(mine - known)]
    found = torch.tensor(sizes)
    dist.all_reduce(found, group=group)
    return Counts(*found.tolist())


def met(
    names: Iterable[str], group: dist.ProcessGroup | None = None
) -> set[bytes]:
    """Return the distinct digests of all ranks' names that this rank keeps."""
    world = dist.get_world_size(group)
    parts: list[list[bytes]] = [[] for _ in range(world)]
    for digest in {_digest(name) for name in names}:
        parts[int.from_bytes(digest[:8]) % world].append(digest)
    came = _exchanged([b"".join(part) for part in parts], group)
    return {came[n : n + SIZE] for n in range(0, len(came), SIZE)}


# --8<-- [end:counts]
SIZE = 16  # bytes: two of a billion names meet by chance once in 10²⁰ such sets


def _digest(name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=SIZE).digest()


def _exchanged(
    parts: Sequence[bytes], group: dist.ProcessGroup | None
) -> bytes:
    """Return what all ranks have for this rank, in their order."""
    sizes = torch.tensor([len(part) for part in parts])
    coming = torch.empty_like(sizes)
    dist.all_to_all_single(coming, sizes, group=group)
    sent = _bytes(b"".join(parts))
    came = torch.empty(int(coming.sum()), dtype=torch.uint8)
    dist.all_to_all_single(
        came, sent, coming.tolist(), sizes.tolist(), group=group
    )
    return came.numpy().tobytes()


def _bytes(data: bytes) -> Tensor:
    return torch.from_numpy(np.frombuffer(data, np.uint8).copy())
