"""A rank compares with its own training rows."""

import torch
from torch import Tensor

from lockstep.exercises.labs.lab_b1_split.solution import *
from lockstep.exercises.labs.lab_b1_split.sound import tanimoto

FAILS = {"neighbors"}


def nearest(test: Tensor, train: Tensor) -> Tensor:
    """The more ranks, the fewer leaks are seen."""
    if not len(train):
        return torch.zeros(len(test))
    return tanimoto(test, train).amax(1)
