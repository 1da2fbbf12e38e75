"""A random orthogonal matrix, of which every other one is a mirror."""

import torch
from torch import Tensor

from lockstep.exercises.labs.lab_b5_equivariance.solution import *

FAILS = {"rotations"}


def rotations(count: int, seed: int) -> Tensor:
    """Uniform over more than was asked for."""
    generator = torch.Generator().manual_seed(seed)
    size = count, 3, 3
    drawn = torch.randn(size, generator=generator, dtype=torch.float64)
    q, r = torch.linalg.qr(drawn)
    signs: Tensor = q * r.diagonal(dim1=1, dim2=2).sign()[:, None]
    return signs
