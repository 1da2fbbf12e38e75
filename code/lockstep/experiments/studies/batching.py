"""What random batches, token budgets and packed rows cost on real lengths.

    python -m lockstep.experiments.studies.batching

The lengths are those of ChEMBL's SMILES, in characters. All ranks are played
by one process; `hang` starts two.
"""

from __future__ import annotations

import sys
from functools import cache

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from lockstep.bio.batches import Ids, TokenBatches, cut, padding
from lockstep.bio.datasets import chembl
from lockstep.bio.global_mean import part_of_mean
from lockstep.instruments.forked import on_ranks
from lockstep.trainer.order import GlobalOrder
from lockstep.trainer.process import joined

BUDGET, PARTS, WINDOW, AT_RANDOM = 4096, 8, 16_384, 64
SAMPLES = 1_000  # of the run that hangs
# Its time-out; and that of the run that does not, on a machine that is busy.
SECONDS, PATIENCE = 5.0, 60.0


@cache
def lengths() -> np.ndarray:
    """Characters of each SMILES, int64 [molecules]."""
    return np.array([len(one) for one in chembl().smiles])


def in_order(n: int) -> Ids:
    """One epoch."""
    return GlobalOrder(n, seed=0)(np.arange(n))


def random_batches() -> list[Ids]:
    """Of as many molecules each, as the order has them."""
    ids = in_order(len(lengths()))
    return [ids[i : i + AT_RANDOM] for i in range(0, len(ids), AT_RANDOM)]


def planned(packed: bool, windows: int = 2) -> list[Ids]:
    """The batches of some windows."""
    source = TokenBatches(lengths(), BUDGET, PARTS, 0, WINDOW, packed)
    steps = [step for at in range(windows) for step in source.plan(at)]
    return [batch for step in steps for batch in step]


# --8<-- [start:own]
def own_batches(rank: int, world: int, samples: int) -> list[Ids]:
    """The plan to avoid: each rank cuts its own share to the token budget."""
    own = in_order(samples)[rank::world]
    longest_first = own[np.argsort(-lengths()[own], kind="stable")]
    return cut(longest_first, lengths(), BUDGET)


# --8<-- [end:own]
def unequal(world: int) -> tuple[int, int, float]:
    """Fewest and most steps of a rank in an epoch, and the share of molecules
    that is never trained on if all stop with the first."""
    n = len(lengths())
    plans = [own_batches(rank, world, n) for rank in range(world)]
    counts = [len(plan) for plan in plans]
    left = sum(len(one) for plan in plans for one in plan[min(counts) :])
    return min(counts), max(counts), left / n


# One rank's epoch


def characters(ids: Ids) -> Tensor:
    """Int64 [molecules, longest]: code points, 0 behind the last one."""
    found = [torch.tensor([*chembl().smiles[i].encode()]) for i in ids]
    return nn.utils.rnn.pad_sequence(found, batch_first=True)


@cache
def fitted() -> Tensor:
    """The logarithm of how often a character follows another, [128, 128]: with
    it a gradient is what batches differ by, as late in a training."""
    counts = torch.full((128, 128), 1e-3)
    for start in range(0, len(lengths()), 1024):
        ids = np.arange(start, min(start + 1024, len(lengths())))
        text = characters(ids)
        said, asked = text[:, :-1], text[:, 1:]
        pairs = said[asked > 0], asked[asked > 0]
        counts.index_put_(pairs, torch.ones(()), accumulate=True)
    return (counts / counts.sum(1, keepdim=True)).log()


class Bigrams(nn.Module):
    """The next character from this one."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table = nn.Embedding.from_pretrained(table.clone(), freeze=False)

    def forward(self, text: Tensor) -> tuple[Tensor, Tensor]:
        """The summed loss of a batch, and of how many characters."""
        said, asked = text[:, :-1], text[:, 1:]
        loss = cross_entropy(
            self.table(said).flatten(0, 1),
            asked.flatten(),
            ignore_index=0,
            reduction="sum",
        )
        return loss, (asked > 0).sum()


def error_of_means(steps: int = 100, ranks: int = 2) -> float:
    """Of the mean of per-rank means, relative to the mean over all characters;
    the median over steps."""
    model, found = Bigrams(fitted()), []
    batches = random_batches()
    for step in range(steps):
        sums, counts = [], []
        for ids in batches[step * ranks : (step + 1) * ranks]:
            loss, count = model(characters(ids))
            sums.append(torch.autograd.grad(loss, model.table.weight)[0])
            counts.append(count)
        right = sum(sums) / sum(counts)
        means = sum(s / c for s, c in zip(sums, counts, strict=True)) / ranks
        found.append(float((means - right).norm() / right.norm()))
    return float(np.median(found))


def epoch(
    store: dist.Store, samples: int, seconds: float, even: bool
) -> tuple[int, int, str]:
    """One rank's: the steps made and planned, and how it ended."""
    with joined(seconds, store) as me:
        if even:
            source = TokenBatches(lengths()[:samples], BUDGET, 2, 0, samples)
            plan = [step[me.rank] for step in source.plan(0)]
        else:
            plan = own_batches(me.rank, me.world_size, samples)
        model = DistributedDataParallel(Bigrams(torch.zeros(128, 128)))
        done = 0
        try:
            for ids in plan:
                part_of_mean(*model(characters(ids))).backward()
                done += 1
            ended = "ended"
        except RuntimeError as error:
            ended = "Timed out" if "Timed out" in str(error) else str(error)
        # A rank that left would say so by its closed socket. Most do not: they
        # evaluate, write a checkpoint, or wait at a barrier.
        store.set(f"ended {me.rank}", "")
        store.wait([f"ended {rank}" for rank in range(me.world_size)])
        return done, len(plan), ended


def main(command: str = "table") -> None:
    """Padding, steps, and gradients; or, asked to `hang`, two ranks."""
    torch.set_num_threads(1)
    if command == "hang":
        for even in (False, True):
            print("one plan" if even else "own plans")
            limit = PATIENCE if even else SECONDS
            ranks = on_ranks(2, epoch, SAMPLES, limit, even)
            for rank, (done, planned_, ended) in enumerate(ranks):
                print(f"  rank {rank}: {done} of {planned_} steps, {ended}")
        return
    rows: dict[str, tuple[list[Ids], int]] = {
        f"{AT_RANDOM} at random": (random_batches(), 0),
        "token budget": (planned(packed=False), 0),
        "packed rows": (planned(packed=True), BUDGET),
    }
    print("batches        padding  samples  shapes")
    for name, (batches, row) in rows.items():
        sizes = [len(batch) for batch in batches]
        share = padding(batches, lengths(), row)
        shapes = {(len(one), lengths()[one].max()) for one in batches}
        print(f"{name:14}{share:8.1%}", end="")
        print(f"{min(sizes):5}-{max(sizes):<3}", end="")
        print(f"{1 if row else len(shapes):8}")
    print("\nown plans: ranks  fewest  most  left out")
    for world in (2, 8, 64):
        least, most, left = unequal(world)
        print(f"{world:16}{least:8}{most:6}{left:10.1%}")
    print(f"\nmean of two ranks' means: {error_of_means():.1%} off")


if __name__ == "__main__":
    main(*sys.argv[1:])
