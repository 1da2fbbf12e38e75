"""Rows go by the ranks across, columns by those down."""

from torch import Tensor

from lockstep.exercises.labs.lab_b6_pair_axes.solution import *
from lockstep.exercises.labs.lab_b6_pair_axes.sound import part as sound

FAILS = {"tiles"}


def part(z: Tensor, mesh: Mesh) -> Tensor:
    """Right, on the diagonal."""
    return sound(z, Mesh(mesh.across, mesh.down))
