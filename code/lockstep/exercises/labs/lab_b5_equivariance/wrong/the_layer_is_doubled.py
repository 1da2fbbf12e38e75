"""The layer is made float64 in place, and trains on as one."""

from torch import Tensor, nn

from lockstep.exercises.labs.lab_b5_equivariance.solution import *
from lockstep.exercises.labs.lab_b5_equivariance.sound import breaks as sound

FAILS = {"sound layers"}


def breaks(layer: nn.Module, h: Tensor, x: Tensor, seed: int = 0) -> set[str]:
    """A test that changes what it tests."""
    return sound(layer.double(), h, x, seed)
