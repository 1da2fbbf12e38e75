"""Each rank's numbers are averaged over ranks."""

import torch
import torch.distributed as dist
from torch import Tensor

from lockstep.exercises.labs.lab_b1_split.solution import *
from lockstep.exercises.labs.lab_b1_split.solution import audit as sound

FAILS = {"audit"}


def audit(near: Tensor, least: float) -> dict[str, float]:
    """Right, where ranks have the same molecules."""
    found = sound(near, least)
    own = torch.zeros(3, dtype=torch.float64)
    if len(near):
        share = (near >= least).double().mean()
        own = torch.stack([share, near.double().quantile(0.5), share * 0 + 1])
    dist.all_reduce(own)
    near_by, median, ranks = own.tolist()
    return found | {"near": near_by / ranks, "median": median / ranks}
