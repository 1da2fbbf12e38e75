"""Parts are packed into one tensor, so all must be of one size."""

import torch
from torch import Tensor

from lockstep.exercises.labs.lab_01_collectives.solution import *
from lockstep.parallel.collectives import Group
from lockstep.parallel.collectives import all_to_all as sound

FAILS = {"all-to-all"}


def all_to_all(
    outputs: list[Tensor], inputs: list[Tensor], group: Group = None
) -> None:
    """Parts of one size."""
    packed = torch.stack(inputs)
    arrived = torch.empty_like(packed)
    sound(list(arrived), list(packed), group)
    for output, part in zip(outputs, arrived, strict=True):
        output.copy_(part)
