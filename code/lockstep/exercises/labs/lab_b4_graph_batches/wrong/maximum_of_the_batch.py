"""One maximum is taken off for all graphs: of a graph far below it, every
exponential is 0."""

from torch import Tensor

from lockstep.exercises.labs.lab_b4_graph_batches.solution import *

FAILS = {"softmax"}


def softmax(scores: Tensor, batch: Batch) -> Tensor:
    """Right, while all graphs' scores are alike: else 0 / 0."""
    parts = (scores - scores.detach().max()).exp()
    return parts / readout(parts[:, None], batch, "sum")[batch.owner, 0]
