"""All turns are about z, as on paper."""

from copy import deepcopy

import torch
from torch import Tensor, nn

from lockstep.exercises.labs.lab_b5_equivariance.solution import *
from lockstep.exercises.labs.lab_b5_equivariance.sound import breaks as sound
from lockstep.exercises.labs.lab_b5_equivariance.sound import makes, off

FAILS = {"rotation"}


def breaks(layer: nn.Module, h: Tensor, x: Tensor, seed: int = 0) -> set[str]:
    """A layer that knows which way is up passes."""
    found = sound(layer, h, x, seed) - {"rotation"}
    angle = torch.tensor(1.0 + seed).double()
    turn = torch.eye(3).double()
    turn[0, 0] = turn[1, 1] = angle.cos()
    turn[1, 0], turn[0, 1] = angle.sin(), -angle.sin()
    wide = deepcopy(layer).double()
    made, added = makes(wide, h.double(), x.double())
    there = makes(wide, h.double(), x.double() @ turn.T)
    if max(map(off, there, (made, added @ turn.T))) > 1e-8:
        found.add("rotation")
    return found
