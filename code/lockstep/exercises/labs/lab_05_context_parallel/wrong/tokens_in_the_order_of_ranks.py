"""What came is taken for the sequence, in whatever order ranks have it."""

import torch
from torch import Tensor

from lockstep.exercises.labs.lab_05_context_parallel.parts import sound_but
from lockstep.exercises.labs.lab_05_context_parallel.solution import *
from lockstep.parallel.collectives import Group, place

FAILS = {"Ulysses"}


def gathered(positions: Tensor, group: Group) -> Tensor:
    """As if rank 0 had the first tokens, rank 1 the next."""
    ranks = place(group)[1]
    return torch.arange(ranks * len(positions)).view(ranks, -1)


ulysses_attention = sound_but(gathered=gathered).ulysses_attention
