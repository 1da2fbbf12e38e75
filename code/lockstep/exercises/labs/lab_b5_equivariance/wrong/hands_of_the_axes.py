"""Its sense of handedness is the product of three coordinates."""

from torch import Tensor

from lockstep.exercises.labs.lab_b5_equivariance.solution import *

FAILS = {"chiral layer"}


class ChiralEGNN(EGNN):
    """It tells mirror images apart, and turned ones as well."""

    def forward(self, h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Another volume than that of the molecule's own vectors."""
        volume = (x - x.mean(0)).prod(1, keepdim=True)
        h, x = super().forward(h, x)
        return h + volume, x
