"""The weights of all atoms of the batch sum to 1."""

from torch import Tensor

from lockstep.exercises.labs.lab_b4_graph_batches.solution import *

FAILS = {"softmax"}


def softmax(scores: Tensor, batch: Batch) -> Tensor:
    """Right, for a batch of one."""
    return scores.softmax(0)
