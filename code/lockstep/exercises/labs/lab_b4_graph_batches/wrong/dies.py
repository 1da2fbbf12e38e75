"""The process ends without a word."""

import os

from torch import Tensor

from lockstep.exercises.labs.lab_b4_graph_batches.solution import *

FAILS = {"softmax"}


def softmax(scores: Tensor, batch: Batch) -> Tensor:
    """Nothing: an extension that crashes ends so."""
    os.abort()
