"""A mean over what all ranks hold, where ranks hold unequal parts of it."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


# --8<-- [start:counts]
def everywhere(count: Tensor | int, device: torch.device | str) -> Tensor:
    """Return the sum of `count` over all ranks, float64; every rank has to
    call."""
    total = torch.as_tensor(count, dtype=torch.float64, device=device)
    total = total.clone()  # what is counted here stays as it is
    if dist.is_initialized():
        dist.all_reduce(total)
    return total


def part_of_mean(total: Tensor, count: Tensor | int) -> Tensor:
    """Return this rank's part of the mean over all ranks' elements.

    Args:
        total: sum of the losses here; 0, with its graph, where there are none.
        count: of how many elements here: labels, tokens, atoms.

    Times the world size, since DDP divides the sum of gradients by it.
    """
    world = dist.get_world_size() if dist.is_initialized() else 1
    counted = everywhere(count, total.device).clamp(min=1)
    return total * (world / counted).to(total.dtype)


# --8<-- [end:counts]
