"""Transposed, with the axes changed, and a still comes first."""

from torch import Tensor

from lockstep.exercises.labs.lab_b6_pair_axes.solution import *

FAILS = {"incoming"}


def incoming(a: Tensor, b: Tensor, mesh: Mesh) -> Tensor:
    """Our tile of the sum's transpose."""
    swapped = Mesh(mesh.across, mesh.down)
    turned = outgoing(a.transpose(0, 1), b.transpose(0, 1), swapped)
    return turned.transpose(0, 1)
