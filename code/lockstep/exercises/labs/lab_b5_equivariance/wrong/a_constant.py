"""One tolerance for all layers and places."""

from torch import Tensor, nn

from lockstep.exercises.labs.lab_b5_equivariance.solution import *

FAILS = {"tolerance"}


def tolerance(layer: nn.Module, h: Tensor, x: Tensor) -> float:
    """A thousand Å away it fails, and here it passes what it should not."""
    return 1e-5
