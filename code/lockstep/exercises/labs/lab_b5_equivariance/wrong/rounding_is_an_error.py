"""All in float32, with the tolerance that float64 would allow."""

import torch
from torch import Tensor, nn

from lockstep.exercises.labs.lab_b5_equivariance.solution import *
from lockstep.exercises.labs.lab_b5_equivariance.sound import makes, off

FAILS = {"sound layers", "mirror"}


def breaks(layer: nn.Module, h: Tensor, x: Tensor, seed: int = 0) -> set[str]:
    """Every layer breaks everything."""
    found, h, x = set(), h.float(), x.float()
    mirror = torch.diag(torch.tensor([-1.0, 1, 1]))
    order = torch.randperm(len(x))
    turn = rotations(1, seed)[0].float()
    one = torch.eye(3)
    for name, matrix, far in (
        ("translation", one, 30.0),
        ("rotation", turn, 0.0),
        ("permutation", one, 0.0),
        ("mirror", turn @ mirror, 0.0),
    ):
        at = order if name == "permutation" else torch.arange(len(x))
        made, added = makes(layer, h, x)
        right = made[at], added[at] @ matrix.T.double()
        there = makes(layer, h[at], x[at] @ matrix.T + far)
        if max(map(off, there, right)) > 1e-8:
            found.add(name)
    return found
