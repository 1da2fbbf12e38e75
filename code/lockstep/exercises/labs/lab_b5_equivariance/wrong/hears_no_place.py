"""Messages hear features alone: sound under everything, and blind."""

from torch import Tensor

from lockstep.exercises.labs.lab_b5_equivariance.solution import *
from lockstep.exercises.labs.lab_b5_equivariance.sound import EGNN as Sound

FAILS = {"EGNN"}


class EGNN(Sound):
    """Any two conformers of a molecule are one to its features."""

    def messages(self, h: Tensor, squared: Tensor, x: Tensor) -> Tensor:
        """Of a distance that is always zero."""
        return super().messages(h, 0 * squared, x)
