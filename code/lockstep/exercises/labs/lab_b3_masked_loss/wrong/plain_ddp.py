"""DDP as it is: it waits for gradients that no backward pass computes."""

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from lockstep.exercises.labs.lab_b3_masked_loss.solution import *

FAILS = {"heads", "idle heads"}


def replicated(model: nn.Module) -> DistributedDataParallel:
    """A step on the rank's own gradients, and then an error."""
    return DistributedDataParallel(model)
