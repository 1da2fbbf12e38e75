"""Zig-zag order alone: all scores are computed, then half are masked."""

from torch import Tensor

from lockstep.exercises.labs.lab_05_context_parallel.parts import sound_but
from lockstep.exercises.labs.lab_05_context_parallel.solution import *

FAILS = {"balance"}


def visible(mine: Tensor, theirs: Tensor) -> tuple[slice, slice]:
    """All of both."""
    return slice(None), slice(None)


ring_attention = sound_but(visible=visible).ring_attention
