"""Keys and values make n hops, of which the last brings what is known."""

from collections.abc import Iterator

from torch import Tensor

from lockstep.exercises.labs.lab_05_context_parallel.parts import sound_but
from lockstep.exercises.labs.lab_05_context_parallel.solution import *
from lockstep.parallel.collectives import Group, place
from lockstep.parallel.context_parallel import pass_on

FAILS = {"bytes sent and held"}


def circulate(block: Tensor, group: Group) -> Iterator[tuple[int, Tensor]]:
    """One round in which every step is alike."""
    rank, ranks = place(group)
    for step in range(ranks):
        arrived = pass_on(block, group)
        yield (rank - step) % ranks, block
        block = arrived()


ring_attention = sound_but(circulate=circulate).ring_attention
