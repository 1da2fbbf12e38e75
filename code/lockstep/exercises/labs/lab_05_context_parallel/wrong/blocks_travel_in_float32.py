"""Keys and values are widened before they are sent."""

from collections.abc import Iterator

from torch import Tensor

from lockstep.exercises.labs.lab_05_context_parallel.parts import sound_but
from lockstep.exercises.labs.lab_05_context_parallel.solution import *
from lockstep.parallel.collectives import Group
from lockstep.parallel.context_parallel import circulate as sound

FAILS = {"bytes sent and held"}


def circulate(block: Tensor, group: Group) -> Iterator[tuple[int, Tensor]]:
    """Twice the bytes of bfloat16, and no digit more."""
    yield from sound(block.float(), group)


ring_attention = sound_but(circulate=circulate).ring_attention
