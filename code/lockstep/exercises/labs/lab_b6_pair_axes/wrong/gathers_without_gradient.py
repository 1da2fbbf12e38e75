"""torch's own all-gather, of which autograd knows nothing."""

import torch
from torch import Tensor

from lockstep.exercises.labs.lab_b6_pair_axes.solution import *
from lockstep.exercises.labs.lab_b6_pair_axes.sound import joined
from lockstep.parallel.collectives import Group

FAILS = {"gather"}


def gather(x: Tensor, dim: int, group: Group) -> Tensor:
    """The right whole, from nowhere."""
    with torch.no_grad():
        whole = joined(x.movedim(dim, 0), group)
    return whole.movedim(0, dim)
