"""A micro-batch without labels is left out, and if it was the last, its rank
sends no gradients."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from lockstep.exercises.labs.lab_b3_masked_loss.solution import *
from lockstep.exercises.labs.lab_b3_masked_loss.sound import everywhere, in_use

FAILS = {"accumulation"}
SECONDS = 10  # it hangs


def step(
    model: Any,
    batches: Sequence[tuple[Tensor, Tensor]],
    weights: Tensor | None = None,
) -> float:
    """Right, while the last micro-batch has a label."""
    own = [int((~values.isnan()).sum()) for _, values in batches]
    count, total = everywhere(torch.tensor(sum(own))), torch.zeros(())
    for number, (x, values) in enumerate(batches):
        if not own[number]:
            continue
        last = number + 1 == len(batches)
        with nullcontext() if last else model.no_sync():
            predicted = model(x, in_use(values))
            loss = masked_loss(predicted, values, weights, count)
            loss.backward()
        total = total + loss.detach()
    return float(everywhere(total) / dist.get_world_size())
