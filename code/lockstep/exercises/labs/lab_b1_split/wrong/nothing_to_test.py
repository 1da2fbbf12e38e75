"""A rank without test molecules returns at once, and the others wait."""

import torch
from torch import Tensor

from lockstep.exercises.labs.lab_b1_split.solution import *
from lockstep.exercises.labs.lab_b1_split.solution import nearest as sound

FAILS = {"neighbors"}
SECONDS = 10  # it hangs


def nearest(test: Tensor, train: Tensor) -> Tensor:
    """Its training rows stay unseen."""
    if not len(test):
        return torch.zeros(0)
    return sound(test, train)
