"""torch.median takes the lower one, where two are in the middle."""

import torch
from torch import Tensor

from lockstep.exercises.labs.lab_b1_split.solution import *
from lockstep.exercises.labs.lab_b1_split.solution import audit as sound
from lockstep.exercises.labs.lab_b1_split.sound import everyone

FAILS = {"audit"}


def audit(near: Tensor, least: float) -> dict[str, float]:
    """Right, for an odd number of molecules."""
    found = sound(near, least)
    median = torch.cat(everyone(near)).median()
    return found | {"median": float(median)}
