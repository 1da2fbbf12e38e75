"""Molecules on disk: bytes end to end, and where each one ends.

A store is a few large files that any number of processes map. A position in
the trainer's order gives an id, an id a shard and a place in it, and that two
reads. Nothing is as long as the data in any process's own memory.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from .tokens import BEGIN, END, PAD, Tokens

SHARD = 1 << 22  # molecules; a billion are 239 shards
MOST = 1 << 32  # tokens of a shard, whose ends are of 32 bits
IGNORED = -100  # a label without a loss, as `cross_entropy` has it


class Batch(NamedTuple):
    """What a rank trains on."""

    ids: Tensor  # int64 [molecules]
    inputs: Tensor  # uint8 [molecules, longest + 1]
    labels: Tensor  # int64 [molecules, longest + 1], the next token's id


# --8<-- [start:write]
def write(
    folder: Path, smiles: Iterable[str], tokens: Tokens, size: int = SHARD
) -> int:
    """Write a store of these molecules, `size` a shard; return their number."""
    folder.mkdir(parents=True, exist_ok=True)
    shards: list[dict[str, Any]] = []
    held, ends = bytearray(), array("Q", [0])

    def close() -> None:
        if len(held) >= MOST:
            raise ValueError(f"{len(held)} tokens: make shards smaller")
        digest = hashlib.sha256()
        for part, values in (
            ("tokens", np.frombuffer(held, np.uint8)),
            ("ends", np.array(ends, np.uint32)),
        ):
            np.save(folder / f"{len(shards):05d}.{part}.npy", values)
            digest.update(values.tobytes())
        shards.append({"rows": len(ends) - 1, "sha256": digest.hexdigest()})

    for one in smiles:
        held += tokens.encode(one)
        ends.append(len(held))
        if len(ends) > size:
            close()
            held, ends = bytearray(), array("Q", [0])
    if len(ends) > 1:
        close()
    manifest = {"tokens": [*tokens.id], "shards": shards}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return sum(one["rows"] for one in shards)


# --8<-- [end:write]
# --8<-- [start:molecules]
class Molecules(Dataset[Batch]):
    """A store, fetched a micro-batch of (epochs, ids) at a time."""

    def __init__(self, folder: Path) -> None:
        text = (folder / "manifest.json").read_bytes()
        manifest = json.loads(text)
        self.folder, self.tokens = folder, Tokens(manifest["tokens"])
        rows = [one["rows"] for one in manifest["shards"]]
        self.begins = np.cumsum([0, *rows], dtype=np.int64)
        self.fingerprint = hashlib.sha256(text).hexdigest()
        self.opened: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def __getstate__(self) -> dict[str, Any]:
        # A memory map is pickled as all that it maps: a worker opens its own.
        return self.__dict__ | {"opened": {}}

    def __len__(self) -> int:
        return int(self.begins[-1])

    def shard(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Tokens and ends of one shard, mapped."""
        if number not in self.opened:
            stem = f"{self.folder}/{number:05d}"
            tokens, ends = (
                # A plain view of the map: slices of it are made faster.
                np.load(f"{stem}.{part}.npy", mmap_mode="r").view(np.ndarray)
                for part in ("tokens", "ends")
            )
            self.opened[number] = tokens, ends
        return self.opened[number]

    def rows(self, ids: np.ndarray) -> list[np.ndarray]:
        """Tokens of each, uint8 [its length]."""
        numbers = np.searchsorted(self.begins, ids, side="right") - 1
        places = ids - self.begins[numbers]
        found = []
        for number, at in zip(numbers.tolist(), places.tolist(), strict=True):
            tokens, ends = self.shard(number)
            found.append(tokens[ends[at] : ends[at + 1]])
        return found

    def __getitem__(self, index: np.ndarray) -> Batch:
        _, ids = index
        return collate(ids, self.rows(ids))


def collate(ids: np.ndarray, rows: list[np.ndarray]) -> Batch:
    """Side by side: what is read begins with BEGIN, what is asked ends with
    END, and behind it nothing is asked."""
    longest = max(map(len, rows), default=0) + 1
    inputs = np.full((len(rows), longest), PAD, np.uint8)
    labels = np.full((len(rows), longest), IGNORED, np.int64)
    inputs[:, :1] = BEGIN
    for read, asked, row in zip(inputs, labels, rows, strict=True):
        n = len(row)
        read[1 : n + 1] = asked[:n] = row
        asked[n] = END
    return Batch(*map(torch.from_numpy, (ids, inputs, labels)))


# --8<-- [end:molecules]
