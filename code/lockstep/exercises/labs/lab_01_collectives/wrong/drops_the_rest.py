"""The length is cut to a multiple of the ranks."""

import torch
from torch import Tensor

from lockstep.exercises.labs.lab_01_collectives.solution import *
from lockstep.parallel.collectives import Group, place

FAILS = {"all-reduce"}


def ring_all_reduce(tensor: Tensor, group: Group = None) -> None:
    """The sum of the first numbers, as many as ranks divide."""
    rank, ranks = place(group)
    flat = tensor.view(-1)
    parts = list(flat[: len(flat) // ranks * ranks].chunk(ranks))
    if not parts[0].numel():
        return
    mine = torch.empty_like(parts[rank])
    ring_reduce_scatter(mine, parts, group)
    ring_all_gather(parts, mine, group)
