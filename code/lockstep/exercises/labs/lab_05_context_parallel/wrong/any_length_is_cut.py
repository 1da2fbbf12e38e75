"""A length that chunks do not divide is cut short."""

from torch import Tensor

from lockstep.exercises.labs.lab_05_context_parallel.solution import *
from lockstep.parallel.context_parallel import zigzag_positions as sound

FAILS = {"balance"}


def zigzag_positions(length: int, rank: int, ranks: int) -> Tensor:
    """The last tokens belong to nobody."""
    return sound(length - length % (2 * ranks), rank, ranks)
