"""What a stream makes of workers, of a shuffle buffer and of packing."""

from collections.abc import Iterable, Iterator

import numpy as np
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from lockstep.trainer.order import GlobalOrder


# --8<-- [start:stream]
class Stream(IterableDataset[int]):
    """Ten samples, which the workers divide among them, or do not."""

    def __init__(self, divided: bool) -> None:
        self.divided = divided

    def __iter__(self) -> Iterator[int]:
        worker = get_worker_info()
        if worker is None or not self.divided:
            return iter(range(10))
        return iter(range(worker.id, 10, worker.num_workers))


def batches(workers: int, divided: bool) -> list[list[int]]:
    """As a loader has them, of two samples."""
    loader = DataLoader(Stream(divided), 2, num_workers=workers)
    return [batch.tolist() for batch in loader]


# --8<-- [end:stream]
# --8<-- [start:buffered]
def buffered(samples: Iterable[int], size: int) -> Iterator[int]:
    """`size` samples wait, and a random one of them leaves for each new one."""
    waiting: list[int] = []
    rng = np.random.default_rng(0)
    for sample in samples:
        if len(waiting) < size:
            waiting.append(sample)
            continue
        i = rng.integers(size)
        yield waiting[i]
        waiting[i] = sample
    rng.shuffle(waiting)
    yield from waiting


# --8<-- [end:buffered]
# --8<-- [start:packs]
def packs(lengths: Iterable[int], room: int = 512) -> int:
    """How many sequences of `room` tokens documents fill in their order; one
    that does not fit begins the next."""
    filled, used = 1, 0
    for length in lengths:
        if used + length > room:
            filled, used = filled + 1, 0
        used += length
    return filled


# --8<-- [end:packs]
def documents(n: int = 1000) -> list[int]:
    """Their lengths, up to 512 tokens, most of them short."""
    drawn = np.random.default_rng(0).lognormal(4.5, 1.0, n)
    return np.clip(drawn, 1, 512).astype(int).tolist()


def classes(ids: Iterable[int]) -> int:
    """How many of ten classes are in a batch; a class is 1,000 samples."""
    return len({i // 1000 for i in ids})


def main() -> None:
    """Workers; a buffer beside a permutation; packs."""
    for workers, divided in ((0, False), (2, False), (2, True)):
        found = batches(workers, divided)
        text = " ".join("".join(map(str, batch)) for batch in found)
        how = "divided" if divided else "not divided"
        print(f"{workers} workers, {how:12} {text}")
    first = np.arange(100)
    near = [*buffered(range(10_000), 500)][:100]
    far = GlobalOrder(10_000, seed=0)(first).tolist()
    print(f"\nclasses in a batch of 100: buffer {classes(near)}, ", end="")
    print(f"permutation {classes(far)}")
    lengths = documents()
    dealt = [packs(lengths[rank::4]) for rank in range(4)]
    print(f"\npacked by each of four ranks: {dealt}")
    print(f"packed before dealing: {packs(lengths)}")


if __name__ == "__main__":
    main()
