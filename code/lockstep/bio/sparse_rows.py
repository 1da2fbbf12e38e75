"""Sparse counts on disk, dense a batch at a time.

    python -m lockstep.bio.sparse_rows

A cell has counts of twenty thousand genes, nearly all of them zero. Rows lie in
shards of compressed sparse rows (CSR), memory-mapped, so that a row costs what
it holds; only the rows of a batch become dense. Ids are the trainer's, in its
global order.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import tempfile
import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch.utils.data import Dataset

Batch = tuple[
    Tensor, Tensor, Tensor
]  # ids (m,), counts (m, genes), labels (m,)
# A shard's arrays. Ends of rows are counts of all that is stored, and an atlas
# stores more than 2³¹; genes are few.
PARTS = {"data": np.int32, "indices": np.int32, "indptr": np.int64}


def write(folder: Path, blocks: Iterable[sparse.csr_array]) -> None:
    """Each block as a shard; no more than one is in memory.

    Raises:
        ValueError: blocks differ in their number of genes, or counts in type.
    """
    shards: list[dict[str, Any]] = []
    genes = None
    for number, block in enumerate(blocks):
        if not np.issubdtype(block.dtype, np.integer):
            raise ValueError(f"block {number} holds {block.dtype}, not counts")
        if genes not in (None, block.shape[1]):
            raise ValueError(
                f"block {number} has {block.shape[1]} genes, those before"
                f" {genes}"
            )
        genes = block.shape[1]
        # A gene that is named twice in a row would be added up, or not.
        block.sum_duplicates()
        digest = hashlib.sha256()
        for part, kind in PARTS.items():
            values = getattr(block, part).astype(kind)
            np.save(folder / f"{number:05d}.{part}.npy", values)
            digest.update(values.tobytes())
        shards.append({"rows": block.shape[0], "sha256": digest.hexdigest()})
    manifest = {"genes": genes, "shards": shards}
    (folder / "manifest.json").write_text(json.dumps(manifest))


# --8<-- [start:rows]
class Rows(Dataset[Batch]):
    """Shards of counts, fetched a micro-batch of (epochs, ids) at a time.

    Args:
        labels: one a row, in order of shards.
    """

    def __init__(self, folder: Path, labels: np.ndarray) -> None:
        text = (folder / "manifest.json").read_bytes()
        manifest = json.loads(text)
        self.folder, self.genes = folder, manifest["genes"]
        self.ends = np.cumsum([one["rows"] for one in manifest["shards"]])
        self.labels = torch.as_tensor(labels)
        if len(self.labels) != len(self):
            raise ValueError(f"{len(self.labels)} labels, {len(self)} rows")
        raw = text + self.labels.numpy().tobytes()
        self.fingerprint = hashlib.sha256(raw).hexdigest()
        self.opened: dict[int, list[np.ndarray]] = {}

    def __getstate__(self) -> dict[str, Any]:
        # A memory map is pickled as all that it maps: a worker opens its own.
        return self.__dict__ | {"opened": {}}

    def __len__(self) -> int:
        return int(self.ends[-1])

    def shard(self, number: int) -> list[np.ndarray]:
        """Map the data, indices and ends of rows of one shard."""
        if number not in self.opened:
            stem = self.folder / f"{number:05d}"
            self.opened[number] = [
                np.load(f"{stem}.{part}.npy", mmap_mode="r") for part in PARTS
            ]
        return self.opened[number]

    def __getitem__(self, index: np.ndarray) -> Batch:
        _, ids = index
        dense = np.zeros((len(ids), self.genes), "f4")
        shards = np.searchsorted(self.ends, ids, side="right")
        begins = np.concatenate([[0], self.ends])
        for row, number, id_ in zip(dense, shards, ids, strict=True):
            data, genes, ends = self.shard(number)
            at = id_ - begins[number]
            here = slice(ends[at], ends[at + 1])
            row[genes[here]] = data[here]
        own = torch.from_numpy(ids)
        return own, torch.from_numpy(dense), self.labels[own]


# --8<-- [end:rows]
def synthetic(cells: int, genes: int, seed: int) -> sparse.csr_array:
    """Draw counts without any structure: each gene's mean and spread at random
    (a negative binomial), each cell independent of all others."""
    rng = np.random.default_rng(seed)
    mean = rng.lognormal(-4, 1.5, genes)
    rate = rng.gamma(0.5, 2 * mean, (cells, genes))
    return sparse.csr_array(rng.poisson(rate).astype(np.int32))


def peak(work: Any, *args: Any) -> int:
    """Bytes that NumPy and Python held at most while `work(*args)` ran."""
    tracemalloc.start()
    work(*args)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


def main() -> None:
    """Print what a batch costs, and what a worker that isn't forked gets."""
    with tempfile.TemporaryDirectory() as folder:
        blocks = [synthetic(1024, 4000, seed) for seed in range(4)]
        write(Path(folder), blocks)
        data = Rows(Path(folder), np.zeros(4096))
        whole = sparse.vstack(blocks, "csr")
        ids = np.arange(64) * 61
        index = np.stack([0 * ids, ids])
        print(f"{whole.shape[0]} cells, {whole.shape[1]} genes,", end=" ")
        print(f"{whole.nnz / np.prod(whole.shape):.1%} filled\n")
        costs = {
            "a batch of 64": peak(data.__getitem__, index),
            "all, made dense first": peak(whole.toarray),
            "to a new worker": len(pickle.dumps(data)),
            "with its maps": len(pickle.dumps(data.__dict__)),
        }
        for name, cost in costs.items():
            print(f"{name:22} {cost / 1e6:6.2f} MB")


if __name__ == "__main__":
    main()
