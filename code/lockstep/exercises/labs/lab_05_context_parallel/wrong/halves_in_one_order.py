"""Two chunks on each rank, and both are earlier on an earlier rank."""

import torch
from torch import Tensor

from lockstep.exercises.labs.lab_05_context_parallel.solution import *
from lockstep.parallel.context_parallel import zigzag_positions as sound

FAILS = {"balance"}


def zigzag_positions(length: int, rank: int, ranks: int) -> Tensor:
    """Chunks `rank` and `ranks` + `rank`."""
    sound(length, rank, ranks)  # refuses what it must
    chunks = torch.arange(length).chunk(2 * ranks)
    return torch.cat((chunks[rank], chunks[ranks + rank]))
