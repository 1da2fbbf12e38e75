"""A rank without one of the targets skips the reduction, and the others wait
for it."""

from torch import Tensor

from lockstep.exercises.labs.lab_04_tensor_parallel.solution import *
from lockstep.exercises.labs.lab_04_tensor_parallel.solution import (
    vocab_parallel_cross_entropy as sound,
)
from lockstep.parallel.collectives import Group, place

FAILS = {"cross entropy"}
SECONDS = 10  # it hangs


def vocab_parallel_cross_entropy(
    logits: Tensor, targets: Tensor, group: Group = None
) -> Tensor:
    """Right, while every rank has a target."""
    size = logits.shape[-1]
    own = targets - place(group)[0] * size
    if not ((own >= 0) & (own < size)).any():
        return 0 * logits.sum(-1)
    return sound(logits, targets, group)
