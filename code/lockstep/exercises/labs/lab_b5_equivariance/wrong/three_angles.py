"""Three angles, each drawn uniformly: the poles come too often."""

import torch
from torch import Tensor

from lockstep.exercises.labs.lab_b5_equivariance.solution import *

FAILS = {"rotations"}


def about(axis: int, angles: Tensor) -> Tensor:
    """Turns about one axis."""
    turns = torch.zeros(len(angles), 3, 3, dtype=torch.float64)
    a, b = (axis + 1) % 3, (axis + 2) % 3
    turns[:, axis, axis] = 1
    turns[:, a, a] = turns[:, b, b] = angles.cos()
    turns[:, b, a] = angles.sin()
    turns[:, a, b] = -angles.sin()
    return turns


def rotations(count: int, seed: int) -> Tensor:
    """Rotations all of them, and not uniform."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.rand(3, count, generator=generator, dtype=torch.float64)
    first, second, third = 2 * torch.pi * drawn
    return about(2, first) @ about(0, second / 2) @ about(2, third)
