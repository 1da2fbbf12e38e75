"""b is repeated for every row, and backward wants all the copies."""

from torch import Tensor

from lockstep.exercises.labs.lab_b6_pair_axes.solution import *

FAILS = {"memory"}


def outgoing(a: Tensor, b: Tensor, mesh: Mesh) -> Tensor:
    """Every i with every j and k: the cube of what a pair takes."""
    rows = gather(b, 0, mesh.down)
    copies = rows.expand(len(a), *rows.shape).contiguous()
    return scatter((a[:, None] * copies).sum(2), 1, mesh.across)
