"""The batch is compared with its reverse, and no graph is ever alone."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from lockstep.exercises.labs.lab_b4_graph_batches.solution import *

FAILS = {"company"}


def company(
    predict: Callable[[Sequence[Graph]], Tensor], graphs: Sequence[Graph]
) -> list[int]:
    """A batch norm does not mind the order."""
    here, back = predict(graphs), predict(graphs[::-1]).flip(0)
    off = (here - back).abs() > 1e-4 * here.abs().max()
    return torch.nonzero(off)[:, 0].tolist()
