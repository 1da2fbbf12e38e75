"""The bytes that a forward and a backward pass keep, and their peak.

torch's memory tracker counts tensors that have a shape and no memory, so a
model of any size can be counted on a laptop.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.distributed._tools.mem_tracker import MemTracker


class Counted(NamedTuple):
    """Bytes beside weights and gradients."""

    kept: int  # between the forward and the backward pass
    peak: int  # of both passes


# --8<-- [start:counted]
def counted(module: nn.Module, forward: Callable[[], Tensor]) -> Counted:
    """Both passes of `forward`, which returns the loss of `module`, whose
    gradients are there already, as DDP's buckets are."""
    for weight in module.parameters():
        weight.grad = torch.zeros_like(weight)
    tracker = MemTracker()
    tracker.track_external(module)
    with tracker:
        before = total(tracker, "current")
        loss = forward()
        kept = total(tracker, "current") - before
        loss.backward()
    return Counted(kept, total(tracker, "peak") - before)


# --8<-- [end:counted]


def total(tracker: MemTracker, when: str) -> int:
    """Bytes of all tensors."""
    (snapshot,) = tracker.get_tracker_snapshot(when).values()
    return snapshot["Total"]
