"""From sample ids to batches."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from .config import TrainConfig
from .order import BLOCK, GlobalOrder, mix
from .process import Process

Batch = tuple[Tensor, Tensor, Tensor]  # ids (m,), inputs, targets (m, ...)


class Samples:
    """Labeled samples, fetched a micro-batch at a time.

    A task's data must offer the same three: `len()`; `[epochs, ids]`, int64
    (m,) each, m >= 0, which returns a Batch; and a `fingerprint` that changes
    when any sample changes. A sample's randomness is a function of (seed,
    epoch, id)."""

    def __init__(self, x: np.ndarray, y: np.ndarray, cfg: TrainConfig) -> None:
        self.x, self.y, self.cfg = torch.tensor(x).float(), torch.tensor(y), cfg
        raw = self.x.numpy().tobytes() + self.y.numpy().tobytes()
        self.fingerprint = hashlib.sha256(raw).hexdigest()

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: np.ndarray) -> Batch:
        epochs, ids = index
        noise = uniform(self.cfg.seed, epochs, ids, self.x.shape[1])
        kept = torch.from_numpy(noise >= self.cfg.feature_dropout)
        return torch.from_numpy(ids), self.x[ids] * kept, self.y[ids]


def uniform(seed: int, epochs: np.ndarray, ids: np.ndarray,
            k: int) -> np.ndarray:
    """Return (m, k) values in [0, 1), which depend on (seed, epoch, id) alone:
    no rank, worker, prefetch or restart can change them."""
    z = mix(np.full(len(ids), seed, np.uint64)) ^ epochs.astype(np.uint64)
    z = mix(mix(z) ^ ids.astype(np.uint64))[:, None]
    return (mix(z + np.arange(k, dtype=np.uint64)) >> 11) * 2.0**-53


def load_dataset(cfg: TrainConfig) -> tuple[Samples, Samples]:
    """Return the training part and the held-out fifth, equal on all ranks."""
    rng = np.random.default_rng(0)
    if cfg.dataset == "digits":
        from sklearn.datasets import load_digits
        x, y = load_digits(return_X_y=True)
        x = x / 16
    else:  # a linear teacher's labels can be learned
        x = rng.normal(size=(5000, 32))
        y = (x @ rng.normal(size=(32, 4))).argmax(axis=1)
    a, b = np.split(rng.permutation(len(y)), [len(y) * 4 // 5])
    whole = replace(cfg, feature_dropout=0.0)
    return Samples(x[a], y[a], cfg), Samples(x[b], y[b], whole)


def shares(cfg: TrainConfig, me: Process, n: int, position: int,
           end: int) -> Iterator[np.ndarray]:
    """Yield this rank's micro-batches (epochs, ids), `position` to `end`.

    Rank r takes batch[r::world]. A short last batch has as many micro-batches
    as a full batch; the last micro-batches may be short or empty."""
    order, batch = GlobalOrder(n, cfg.seed), cfg.global_batch_size or 1
    block = batch * max(1, BLOCK * me.world_size // batch)
    for start in range(position, end, block):
        stop = min(start + block, end)
        mine = np.arange(start + me.rank, stop, me.world_size)
        index = np.stack([mine // n, order(mine)])
        full = -(-(stop - start) // batch) * batch // me.world_size
        for i in range(0, full, cfg.micro_batch_size):
            yield index[:, i : i + cfg.micro_batch_size]
