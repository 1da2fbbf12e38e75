"""What a stream of molecules makes of workers, of files and of a sorted disk.

    python -m lockstep.experiments.studies.smiles_streams

Nothing here raises: molecules come twice, or never, or the small ones first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from lockstep.bio.datasets import chembl
from lockstep.experiments.demos.data_streams import buffered
from lockstep.trainer.order import GlobalOrder

RANKS, WORKERS, MOLECULES = 2, 2, 4800


# --8<-- [start:files]
class Files(IterableDataset[int]):
    """The molecules of every so-many-th file, by rank alone or by worker."""

    def __init__(self, files: list[range], rank: int, by_worker: bool) -> None:
        self.files, self.rank, self.by_worker = files, rank, by_worker

    def __iter__(self) -> Iterator[int]:
        worker, number, of = get_worker_info(), self.rank, RANKS
        if worker and self.by_worker:
            number = number * worker.num_workers + worker.id
            of *= worker.num_workers
        for file in self.files[number::of]:
            yield from file


# --8<-- [end:files]
class Epoch(NamedTuple):
    """What became of an epoch."""

    again: int  # molecules that were read before, counted each time
    never: int
    steps: list[int]  # of each rank


def epoch(files: int, by_worker: bool, batch: int = 100) -> Epoch:
    """Of `MOLECULES` in so many files, by ranks with workers."""
    each = MOLECULES // files
    all_files = [range(i * each, (i + 1) * each) for i in range(files)]
    steps, seen = [], np.zeros(MOLECULES, int)
    for rank in range(RANKS):
        loader = DataLoader(
            Files(all_files, rank, by_worker), batch, num_workers=WORKERS
        )
        batches = [one.numpy() for one in loader]
        for ids in batches:
            np.add.at(seen, ids, 1)
        steps.append(len(batches))
    return Epoch(
        int(np.maximum(seen - 1, 0).sum()), int((seen == 0).sum()), steps
    )


# --8<-- [start:trend]
def trend(places: np.ndarray) -> float:
    """How the place on the disk goes with the place in the order: 1 as they
    lie, 0 where nothing is left of it (Spearman's correlation)."""
    return float(np.corrcoef(np.arange(len(places)), places)[0, 1])


def orders(n: int, buffer: int) -> dict[str, np.ndarray]:
    """Places on the disk as they are met, int64 [n]."""
    return {
        "as it lies": np.arange(n),
        f"buffer of {buffer}": np.fromiter(buffered(range(n), buffer), int, n),
        "keyed order": GlobalOrder(n, seed=0)(np.arange(n)),
    }


# --8<-- [end:trend]
def main() -> None:
    """Files dealt two ways; a sorted set in three orders."""
    print(f"{RANKS} ranks of {WORKERS} workers, {MOLECULES} molecules\n")
    print("files  dealt to   again  never  steps by rank")
    for files, by_worker in ((4, False), (4, True), (3, True), (2, True)):
        found = epoch(files, by_worker)
        to = "workers" if by_worker else "ranks"
        steps = " and ".join(map(str, found.steps))
        print(f"{files:5}  {to:8}{found.again:8}{found.never:7}  {steps}")
    sizes = np.sort([len(one) for one in chembl().smiles])
    print(f"\n{len(sizes)} molecules sorted by size")
    print(f"of {sizes.mean():.1f} characters on average\n")
    print("order            trend  mean of the first 256")
    for name, places in orders(len(sizes), 1000).items():
        first = sizes[places[:256]].mean()
        print(f"{name:16}{trend(places):6.3f}{first:11.1f}")


if __name__ == "__main__":
    main()
