"""Whatever came is kept for the backward pass, as autograd would keep it."""

from collections.abc import Iterator

from torch import Tensor

from lockstep.exercises.labs.lab_05_context_parallel.parts import sound_but
from lockstep.exercises.labs.lab_05_context_parallel.solution import *
from lockstep.parallel.collectives import Group
from lockstep.parallel.context_parallel import circulate as sound

FAILS = {"bytes sent and held"}
kept: list[Tensor] = []


def circulate(block: Tensor, group: Group) -> Iterator[tuple[int, Tensor]]:
    """Each block goes on, and stays."""
    kept.clear()
    for owner, came in sound(block, group):
        kept.append(came)
        yield owner, came


ring_attention = sound_but(circulate=circulate).ring_attention
