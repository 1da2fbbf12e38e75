"""The other order of atoms is the list from behind."""

from copy import deepcopy

from torch import Tensor, nn

from lockstep.exercises.labs.lab_b5_equivariance.solution import *
from lockstep.exercises.labs.lab_b5_equivariance.sound import breaks as sound
from lockstep.exercises.labs.lab_b5_equivariance.sound import makes, off

FAILS = {"permutation"}


def breaks(layer: nn.Module, h: Tensor, x: Tensor, seed: int = 0) -> set[str]:
    """A convolution along the list is the same from behind."""
    found = sound(layer, h, x, seed) - {"permutation"}
    wide = deepcopy(layer).double()
    made, added = makes(wide, h.double(), x.double())
    there = makes(wide, h.double().flip(0), x.double().flip(0))
    if max(map(off, there, (made.flip(0), added.flip(0)))) > 1e-8:
        found.add("permutation")
    return found
