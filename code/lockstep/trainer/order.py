"""Which sample is next: one global order, computed where it is needed."""

from math import isqrt

import numpy as np

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

    def permute(self, index: np.ndarray, epoch: int,
                back: bool = False) -> np.ndarray:
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
