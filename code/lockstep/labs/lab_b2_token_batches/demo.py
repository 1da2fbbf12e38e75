"""Lab B2: batches of ranks that plan by themselves, and of the answer.

torchrun --standalone --nproc-per-node=2 -m <this module> FILE
"""

from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from lockstep.labs.demo import show
from lockstep.labs.lab_b2_token_batches.sound import cut

BUDGET, PARTS, SEED, SAMPLES, EPOCHS = 2048, 4, 1, 1000, 4


def main(answer: Any) -> None:
    """Some epochs of proteins, a few of which fill a batch."""
    rank, world = dist.get_rank(), dist.get_world_size()
    drawn = np.random.default_rng(0).lognormal(5.2, 0.8, SAMPLES)
    lengths = np.clip(drawn.astype(int), 1, BUDGET)
    for epoch in range(EPOCHS):
        order = np.random.default_rng([SEED, epoch]).permutation(SAMPLES)
        own = sorted(order[rank::world].tolist(), key=lambda i: -lengths[i])
        steps = answer.plan(lengths, BUDGET, PARTS, SEED, epoch)
        mine = [answer.share(step, rank, world) for step in steps]
        counts = torch.tensor(
            [len(cut(own, lengths, BUDGET)), sum(map(len, mine))]
        )
        table = [torch.zeros_like(counts) for _ in range(world)]
        dist.all_gather(table, counts)
        if rank == 0:
            alone, planned = zip(*(one.tolist() for one in table), strict=True)
            print(f"epoch {epoch}: alone {alone}, planned {planned} batches")


if __name__ == "__main__":
    show(main)
