"""Sums travel in float32, whatever came."""

from torch import Tensor

from lockstep.exercises.labs.lab_01_collectives.solution import *
from lockstep.parallel.collectives import Group
from lockstep.parallel.collectives import ring_reduce_scatter as sound

FAILS = {"dtypes"}


def ring_reduce_scatter(
    output: Tensor, inputs: list[Tensor], group: Group = None
) -> None:
    """The sum, of integers rounded."""
    if output.dtype.is_floating_point:
        sound(output, inputs, group)
        return
    total = output.float()
    sound(total, [one.float() for one in inputs], group)
    output.copy_(total)
