"""The tolerance is a number, whatever the outputs are measured in."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from lockstep.exercises.labs.lab_b4_graph_batches.solution import *

FAILS = {"company"}


def company(
    predict: Callable[[Sequence[Graph]], Tensor], graphs: Sequence[Graph]
) -> list[int]:
    """In large units rounding is an error, in small ones an error rounding."""
    here = predict(graphs)
    alone = torch.cat([predict([one]) for one in graphs])
    back = predict(graphs[::-1]).flip(0)
    off = ((here - alone).abs() > 1e-4) | ((here - back).abs() > 1e-4)
    return torch.nonzero(off)[:, 0].tolist()
