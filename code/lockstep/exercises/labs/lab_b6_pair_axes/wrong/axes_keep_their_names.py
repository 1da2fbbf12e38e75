"""The tiles are transposed, and the ranks are not."""

from torch import Tensor

from lockstep.exercises.labs.lab_b6_pair_axes.solution import *

FAILS = {"incoming"}


def incoming(a: Tensor, b: Tensor, mesh: Mesh) -> Tensor:
    """Ranks that share our rows have other columns of the transpose."""
    turned = outgoing(b.transpose(0, 1), a.transpose(0, 1), mesh)
    return turned.transpose(0, 1)
