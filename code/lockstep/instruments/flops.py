"""The FLOPs that training a model costs, counted without computing anything."""

from collections.abc import Callable

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


# --8<-- [start:counted]
def flops_per_token(build: Callable[[], nn.Module], tokens: int) -> float:
    """Return the FLOPs per token of one sequence, forward and backward.

    `build` returns a model that maps token ids of shape (1, tokens) to a loss.
    On the meta device, tensors have shapes but no memory.
    """
    with torch.device("meta"):
        model = build()
        ids = torch.zeros(1, tokens, dtype=torch.long)
        with FlopCounterMode(display=False) as counter:
            model(ids).backward()
    total: int = counter.get_total_flops()
    return total / tokens


def mfu(
    flops: float, tokens_per_second: float, gpus: int, peak: float
) -> float:
    """Return the MFU of a job, from its FLOPs per token and a GPU's peak."""
    return flops * tokens_per_second / (gpus * peak)


# --8<-- [end:counted]
