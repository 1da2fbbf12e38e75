"""Molecules that RDKit refuses, skipped while ranks train.

    python -m lockstep.bio.smiles.skips

Each rank skips its own, so ranks make unequal numbers of steps, and one waits
in an all-reduce for another that has none left. A count that was taken once
beforehand is the same on all ranks.
"""

from __future__ import annotations

import os
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from lockstep.bio.datasets import nci
from lockstep.instruments.forked import on_ranks
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.data import shares
from lockstep.trainer.process import Process

from .prepare import all_canonical

RANKS, BATCH = 2, 8  # molecules of a rank's step
SECONDS = 3.0  # until a wait is an error


# --8<-- [start:skips]
def skipping(good: list[bool], rank: int) -> int:
    """Count the steps of a rank that leaves out the bad lines of its share."""
    return sum(good[rank::RANKS]) // BATCH


def counted(good: list[bool], rank: int) -> int:
    """Count the steps of a rank that knows how many lines are good: the
    trainer's, which leaves none out and makes the last one short."""
    n, me = sum(good), Process(rank, RANKS, torch.device("cpu"))
    cfg = TrainConfig(
        Path(), global_batch_size=RANKS * BATCH, micro_batch_size=BATCH
    )
    return len([*shares(cfg, me, n, 0, n)])


# --8<-- [end:skips]
def replaced(good: list[bool]) -> int:
    """Molecules that come twice where a bad line is answered with the next
    one, and that one is good."""
    return sum(here < after for here, after in pairwise(good))


class Made(NamedTuple):
    """What a rank did."""

    steps: int  # that all ranks have made
    error: str  # which ended it


def train(store: dist.Store, good: list[bool], skip: bool) -> Made:
    """Train a model of one weight for an epoch, and compute a metric at its
    end."""
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", store=store, rank=rank, world_size=RANKS)
    dist.barrier()  # however long a rank took to get here
    group = dist.new_group(timeout=timedelta(seconds=SECONDS))
    model = DistributedDataParallel(
        nn.Linear(1, 1, bias=False), process_group=group
    )
    made = 0
    try:
        for _ in range((skipping if skip else counted)(good, rank)):
            model(torch.ones(BATCH, 1)).sum().backward()
            made += 1
        dist.barrier(group)
    except RuntimeError as error:
        return Made(made, str(error))
    return Made(made, "")


def main() -> None:
    """Both ways, on the compounds of the National Cancer Institute."""
    good = [not one.refused for one in all_canonical(nci())]
    print(f"{len(good)} lines, RDKit refuses {len(good) - sum(good)}\n")
    for skip, name in ((True, "skipped by each rank"), (False, "known before")):
        print(f"{name}:")
        ranks = on_ranks(RANKS, train, good, skip)
        for rank, made in enumerate(ranks):
            end = f"an error after {SECONDS:.0f} s" if made.error else "done"
            print(f"  rank {rank}: {made.steps} steps, then {end}")
    print(
        f"\nanswered with the next line: {replaced(good)} molecules come again"
    )


if __name__ == "__main__":
    main()
