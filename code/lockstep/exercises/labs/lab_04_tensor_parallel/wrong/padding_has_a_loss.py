"""No rank has the target -100, so what is left of the loss is log Σ exp."""

from torch import Tensor

from lockstep.exercises.labs.lab_04_tensor_parallel.solution import *
from lockstep.exercises.labs.lab_04_tensor_parallel.solution import (
    vocab_parallel_cross_entropy as sound,
)
from lockstep.parallel.collectives import Group
from lockstep.parallel.tensor_parallel import IGNORED

FAILS = {"cross entropy"}


def vocab_parallel_cross_entropy(
    logits: Tensor, targets: Tensor, group: Group = None
) -> Tensor:
    """Right, where every token is a target."""
    return sound(logits, targets.where(targets != IGNORED, -1), group)
