"""A block is skipped if it is masked as a whole: in zig-zag order none is."""

from torch import Tensor

from lockstep.exercises.labs.lab_05_context_parallel.parts import sound_but
from lockstep.exercises.labs.lab_05_context_parallel.solution import *
from lockstep.parallel.context_parallel import visible as sound

FAILS = {"balance"}


def visible(mine: Tensor, theirs: Tensor) -> tuple[slice, slice] | None:
    """All of both, or nothing."""
    return (slice(None), slice(None)) if sound(mine, theirs) else None


ring_attention = sound_but(visible=visible).ring_attention
