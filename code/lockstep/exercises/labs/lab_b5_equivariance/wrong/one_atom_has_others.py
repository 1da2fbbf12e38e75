"""The mean over the other atoms, of which a single atom has none."""

import torch
from torch import Tensor

from lockstep.exercises.labs.lab_b5_equivariance.solution import *
from lockstep.exercises.labs.lab_b5_equivariance.sound import EGNN as Sound

FAILS = {"gradients"}


class EGNN(Sound):
    """0 / 0, where a molecule is one atom."""

    def forward(self, h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """What was added, as often divided again."""
        h, moved = super().forward(h, x)
        others = torch.tensor(len(x) - 1.0).to(x)
        return h, x + (moved - x) * max(1, len(x) - 1) / others
