"""Which sample is next: one global order, computed where it is needed."""

from collections.abc import Iterator
from math import isqrt
from typing import Any

import numpy as np
from torch.utils.data import DistributedSampler

# --8<-- [start:keyed]
ROUNDS, BLOCK = 10, 4096  # of the cipher; indices computed at a time


def mix(z: np.ndarray) -> np.ndarray:
    """Scatter the bits of uint64 values (SplitMix64, Steele et al. 2014)."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    return z ^ (z >> 31)


class GlobalOrder:
    """Every epoch a keyed permutation of range(n), in O(1) memory.

    A Feistel cipher over a grid of a x b >= n cells; a value outside range(n)
    walks on until it is inside (Black and Rogaway 2002). Fewer than
    a = ceil(sqrt(n)) cells lie outside, so walks are rare and bounded."""

    def __init__(self, n: int, seed: int) -> None:
        self.n, self.seed, self.a = n, seed, isqrt(n - 1) + 1
        self.b = -(-n // self.a)

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        """Sample ids at int64 `positions` of the endless stream, same shape."""
        epochs, index = np.divmod(positions, self.n)
        ids = np.empty_like(index)
        for epoch in np.unique(epochs):
            here = epochs == epoch
            ids[here] = self.permute(index[here], int(epoch))
        return ids

    def permute(
        self, index: np.ndarray, epoch: int, back: bool = False
    ) -> np.ndarray:
        """Sample ids at `index` of `epoch`; or, if `back`, the inverse."""
        seeds = np.random.SeedSequence(self.seed, spawn_key=[epoch])
        keys = list(enumerate(seeds.generate_state(ROUNDS, np.uint64)))
        ids = self._encrypt(index.astype(np.uint64), keys, back)
        while (outside := ids >= self.n).any():
            ids[outside] = self._encrypt(ids[outside], keys, back)
        return ids.astype(np.int64)

    def _encrypt(self, x: np.ndarray, keys: list, back: bool) -> np.ndarray:
        halves, sizes = list(np.divmod(x, self.b)), (self.a, self.b)
        for i, key in reversed(keys) if back else keys:
            side, other = i % 2, 1 - i % 2
            turn = mix(halves[other] ^ key) % sizes[side]
            turn = sizes[side] - turn if back else turn
            halves[side] = (halves[side] + turn) % sizes[side]
        return halves[0] * self.b + halves[1]


# --8<-- [end:keyed]
class ResumeAwareDistributedSampler(DistributedSampler[int]):
    """This rank's remaining share of an epoch; a drop-in for its base class.

    Nothing is padded: shares differ by at most one sample, or `drop_last` cuts
    them to equal length. Progress is what `commit` was told of finished steps,
    so loader workers that draw ahead cannot move it."""

    consumed = 0  # samples of this epoch trained on, over all ranks

    def share(self) -> range:
        """What this rank still owes of the epoch, as indices into its order."""
        end = n = len(self.dataset)  # type: ignore[arg-type]
        if self.drop_last:
            end -= (n - self.consumed) % self.num_replicas
        return range(self.consumed + self.rank, end, self.num_replicas)

    def __len__(self) -> int:
        return len(self.share())

    def __iter__(self) -> Iterator[int]:
        order = GlobalOrder(self.state_dict()["length"], self.seed)
        share = self.share()
        for start in range(0, len(share), BLOCK):
            index = np.array(share[start : start + BLOCK])
            yield from (order.permute(index, self.epoch).tolist()
                        if self.shuffle else index.tolist())

    def commit(self, global_samples: int) -> None:
        """All ranks together have trained on `global_samples` more."""
        left = self.state_dict()["length"] - self.consumed
        if not 0 <= global_samples <= left:
            raise ValueError(f"{global_samples} committed, {left} were left")
        self.consumed += global_samples

    def set_epoch(self, epoch: int) -> None:
        """Another epoch begins at its first sample; the same one goes on."""
        if epoch != self.epoch:
            self.epoch, self.consumed = epoch, 0

    def state_dict(self) -> dict[str, Any]:
        """Progress, and what the order depends on."""
        names = "epoch", "consumed", "seed", "shuffle"
        mine = {name: getattr(self, name) for name in names}
        return mine | {"length": len(self.dataset)}  # type: ignore[arg-type]

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`; ValueError if it is of another order."""
        for name, mine in self.state_dict().items():
            if name not in ("epoch", "consumed") and mine != state[name]:
                raise ValueError(f"{name} is {mine}, and was {state[name]}")
        self.epoch, self.consumed = state["epoch"], state["consumed"]
