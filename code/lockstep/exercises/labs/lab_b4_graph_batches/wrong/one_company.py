"""Each graph is compared alone with one batch: what the first of it suffers
from others is not seen."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from lockstep.exercises.labs.lab_b4_graph_batches.solution import *

FAILS = {"company"}


def company(
    predict: Callable[[Sequence[Graph]], Tensor], graphs: Sequence[Graph]
) -> list[int]:
    """The first graph has nobody before it, in a batch and alone."""
    here = predict(graphs)
    alone = torch.cat([predict([one]) for one in graphs])
    off = (here - alone).abs() > 1e-4 * here.abs().max()
    return torch.nonzero(off)[:, 0].tolist()
