"""The tile is a view, so all pairs stay in memory for it."""

from torch import Tensor

from lockstep.exercises.labs.lab_b6_pair_axes.solution import *
from lockstep.exercises.labs.lab_b6_pair_axes.sound import part as sound
from lockstep.parallel.collectives import place

FAILS = {"tiles"}


def part(z: Tensor, mesh: Mesh) -> Tensor:
    """Right, for as many times the memory as there are ranks."""
    sound(z, mesh)  # it refuses what cannot be cut
    for dim, group in enumerate(mesh):
        rank, ranks = place(group)
        z = z.chunk(ranks, dim)[rank]
    return z
