"""Who trains on which sample: a step dealt to ranks, and a padded epoch."""

from pathlib import Path
from typing import cast

import torch
from torch.utils.data import Dataset, DistributedSampler

from lockstep.trainer.config import TrainConfig
from lockstep.trainer.data import shares
from lockstep.trainer.process import Process

N, BATCH = 10, 4  # samples, and those of a step


# --8<-- [start:dealt]
def dealt(position: int, world: int) -> list[list[int]]:
    """By rank, the ids of the step that begins at `position`."""
    cfg = TrainConfig(Path(), global_batch_size=BATCH, micro_batch_size=BATCH)
    ranks = [Process(r, world, torch.device("cpu")) for r in range(world)]
    end = position + BATCH
    own = [next(shares(cfg, me, N, position, end)) for me in ranks]
    return [ids.tolist() for _, ids in own]


# --8<-- [end:dealt]
# --8<-- [start:torchs]
def torchs(n: int, world: int, drop_last: bool) -> tuple[int, int]:
    """How many of n samples an epoch of torch's sampler has more than once,
    and how many it has not at all."""
    ids: list[int] = []
    for rank in range(world):
        data = cast(Dataset, range(n))
        ids += DistributedSampler(data, world, rank, drop_last=drop_last)
    return len(ids) - len({*ids}), n - len({*ids})


# --8<-- [end:torchs]
def said(ranks: list[list[int]]) -> str:
    """Each rank's ids, and a bar between two ranks."""
    return " | ".join(" ".join(map(str, ids)) for ids in ranks)


def main() -> None:
    """Three steps on one, two and four ranks; epochs of 1,001 samples."""
    print("position  1 rank      2 ranks       4 ranks")
    for position in range(0, 3 * BATCH, BATCH):
        cells = [said(dealt(position, world)) for world in (1, 2, 4)]
        print(f"{position:8}  {cells[0]:12}{cells[1]:14}{cells[2]}")
    print("\nof 1001 samples   again   never, with drop_last")
    for world in (2, 8, 64, 512):
        again, never = torchs(1001, world, False)[0], torchs(1001, world, True)
        print(f"{world:4} ranks{again:14}{never[1]:8}")


if __name__ == "__main__":
    main()
