"""A message hears where the other atom is, as a feature like any."""

from torch import Tensor

from lockstep.exercises.labs.lab_b5_equivariance.solution import *
from lockstep.exercises.labs.lab_b5_equivariance.sound import EGNN as Sound

FAILS = {"EGNN"}


class EGNN(Sound):
    """Augmentation would teach it what the architecture could have known."""

    def messages(self, h: Tensor, squared: Tensor, x: Tensor) -> Tensor:
        """Distances, and some of a coordinate."""
        return super().messages(h, squared + x[:, :1], x)
