"""Positions are left out, and they lose more digits far away."""

from copy import deepcopy

import torch
from torch import Tensor, nn

from lockstep.exercises.labs.lab_b5_equivariance.solution import *

FAILS = {"tolerance"}


def tolerance(layer: nn.Module, h: Tensor, x: Tensor) -> float:
    """As the features need it."""
    with torch.no_grad():
        narrow, _ = deepcopy(layer).float()(h.float(), x.float())
        wide, _ = deepcopy(layer).double()(h.double(), x.double())
    return float((narrow - wide).abs().max() / wide.abs().max())
