"""Makes all shares equally long, as DistributedSampler does: some samples are
dealt out twice."""

import numpy as np

from lockstep.exercises.labs.lab_10_checkpoint.solution import *
from lockstep.trainer.order import GlobalOrder

FAILS = {"sampler"}


def share(
    n: int, seed: int, position: int, count: int, rank: int, world: int
) -> list[int]:
    """As many samples on every rank."""
    count = -(-count // world) * world
    mine = np.arange(position + rank, position + count, world)
    return GlobalOrder(n, seed)(mine).tolist()
