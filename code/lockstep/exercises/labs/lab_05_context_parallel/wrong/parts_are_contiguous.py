"""Rank r has the r-th part of the sequence, whatever positions say."""

import torch
from torch import Tensor

from lockstep.exercises.labs.lab_05_context_parallel.solution import *
from lockstep.parallel.collectives import Group, place
from lockstep.parallel.context_parallel import ring_attention as sound

FAILS = {"global positions"}


def ring_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    positions: Tensor,
    group: Group = None,
    causal: bool = True,
) -> Tensor:
    """Blocks of later ranks are skipped, of earlier ones seen whole."""
    rank, ranks = place(group)
    length = len(positions) * ranks
    mine = torch.arange(length).chunk(ranks)[rank]
    return sound(q, k, v, mine, group, causal)
