"""Ranks divide the outputs of q, and nobody asks whether a head is cut."""

from torch import nn

from lockstep.exercises.labs.lab_04_tensor_parallel.solution import *
from lockstep.exercises.labs.lab_04_tensor_parallel.solution import (
    ParallelAttention as Sound,
)
from lockstep.parallel.collectives import Group, place

FAILS = {"shards"}


class ParallelAttention(Sound):
    """Right, if ranks divide the heads; another network, if they do not."""

    def __init__(
        self,
        q: nn.Linear,
        k: nn.Linear,
        v: nn.Linear,
        o: nn.Linear,
        heads: int,
        causal: bool = False,
        group: Group = None,
        sequence_parallel: bool = False,
    ) -> None:
        _, ranks = place(group)
        some = heads // ranks
        given = causal, group, sequence_parallel
        super().__init__(q, k, v, o, some * ranks, *given)
