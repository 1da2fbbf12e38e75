"""A mixture of sources as a function of the position."""

from collections import Counter

import numpy as np

from lockstep.trainer.order import GlobalOrder

SIZES, QUOTA = [100, 40, 8], [5, 3, 2]


# --8<-- [start:mixture]
class Mixture:
    """Of each block of sum(quota) samples, `quota[i]` come from source i, at
    places that the seed decides; a source that is exhausted begins anew."""

    def __init__(self, sizes: list[int], quota: list[int], seed: int) -> None:
        self.quota, self.ends = np.array(quota), np.cumsum(quota)
        self.slots = GlobalOrder(sum(quota), seed)  # an epoch is a block
        own = seed * len(sizes)  # no two seeds share a source's order
        self.orders = [GlobalOrder(n, own + i) for i, n in enumerate(sizes)]

    def __call__(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(source, sample id) at int64 `positions` of the endless stream."""
        slot = self.slots(positions)
        source = np.searchsorted(self.ends, slot, "right")
        begin = (self.ends - self.quota)[source]
        block = positions // self.ends[-1]
        drawn = block * self.quota[source] + slot - begin
        ids = np.empty_like(drawn)
        for i, order in enumerate(self.orders):
            ids[source == i] = order(drawn[source == i])
        return source, ids


# --8<-- [end:mixture]
def main() -> None:
    """What 200 samples are; and one of them, asked for alone."""
    mixture = Mixture(SIZES, QUOTA, seed=0)
    sources, ids = mixture(np.arange(200))
    for i, (size, quota) in enumerate(zip(SIZES, QUOTA, strict=True)):
        times = Counter(ids[sources == i].tolist()).values()
        often = " or ".join(str(n) for n in sorted({*times}))
        print(f"source {i}: {quota} of 10, {size:3} samples read {often}×")
    (source,), (sample,) = mixture(np.array([170]))
    print(f"position 170, in order: {sources[170]}, {ids[170]}")
    print(f"position 170, alone:    {source}, {sample}")


if __name__ == "__main__":
    main()
