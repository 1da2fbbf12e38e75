"""What is added to positions is expected to stay as it was."""

from copy import deepcopy

from torch import Tensor, nn

from lockstep.exercises.labs.lab_b5_equivariance.solution import *
from lockstep.exercises.labs.lab_b5_equivariance.sound import breaks as sound
from lockstep.exercises.labs.lab_b5_equivariance.sound import makes, off

FAILS = {"sound layers"}


def breaks(layer: nn.Module, h: Tensor, x: Tensor, seed: int = 0) -> set[str]:
    """Invariance is asked of vectors, which have to turn."""
    found = sound(layer, h, x, seed)
    turn = rotations(1, seed)[0]
    wide = deepcopy(layer).double()
    here = makes(wide, h.double(), x.double())
    there = makes(wide, h.double(), x.double() @ turn.T)
    if max(map(off, there, here)) > 1e-8:
        found.add("rotation")
    return found
