"""Two axes change their signs: that is half a turn, and no mirror."""

from copy import deepcopy

import torch
from torch import Tensor, nn

from lockstep.exercises.labs.lab_b5_equivariance.solution import *
from lockstep.exercises.labs.lab_b5_equivariance.sound import breaks as sound
from lockstep.exercises.labs.lab_b5_equivariance.sound import makes, off

FAILS = {"mirror"}


def breaks(layer: nn.Module, h: Tensor, x: Tensor, seed: int = 0) -> set[str]:
    """Every sound layer seems blind to chirality."""
    found = sound(layer, h, x, seed) - {"mirror"}
    flip = torch.diag(torch.tensor([-1.0, -1, 1]).double())
    wide = deepcopy(layer).double()
    made, added = makes(wide, h.double(), x.double())
    there = makes(wide, h.double(), x.double() @ flip)
    if max(map(off, there, (made, added @ flip))) > 1e-8:
        found.add("mirror")
    return found
