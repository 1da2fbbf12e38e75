"""A fingerprint without bits: 0/0 is NaN, and NaN is the greatest."""

import torch
from torch import Tensor

from lockstep.exercises.labs.lab_b1_split.solution import *
from lockstep.exercises.labs.lab_b1_split.sound import everyone

FAILS = {"neighbors"}


def nearest(test: Tensor, train: Tensor) -> Tensor:
    """Right, where each molecule has a bit."""
    a, b = test.double(), torch.cat(everyone(train)).double()
    if not len(b):
        return torch.zeros(len(a))
    both = a @ b.T
    return (both / (a.sum(1)[:, None] + b.sum(1) - both)).amax(1)
