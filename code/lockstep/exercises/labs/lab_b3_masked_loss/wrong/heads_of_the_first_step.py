"""A static graph: which heads are used is learnt in the first step."""

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from lockstep.exercises.labs.lab_b3_masked_loss.solution import *

FAILS = {"heads"}


def replicated(model: nn.Module) -> DistributedDataParallel:
    """Right, while no rank changes its heads."""
    return DistributedDataParallel(model, static_graph=True)
