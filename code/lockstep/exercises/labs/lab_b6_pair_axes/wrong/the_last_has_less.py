"""What ranks do not divide is cut all the same: the last has less."""

from torch import Tensor

from lockstep.exercises.labs.lab_b6_pair_axes.solution import *
from lockstep.parallel.collectives import place

FAILS = {"tiles"}


def part(z: Tensor, mesh: Mesh) -> Tensor:
    """Collectives of unequal parts hang, or read what is not theirs."""
    for dim, group in enumerate(mesh):
        rank, ranks = place(group)
        z = z.chunk(ranks, dim)[rank]
    return z.clone()
