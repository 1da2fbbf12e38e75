"""What a rank returns is its own part, so ranks log other losses."""

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import torch.distributed as dist
from torch import Tensor

from lockstep.exercises.labs.lab_b3_masked_loss import sound
from lockstep.exercises.labs.lab_b3_masked_loss.solution import *

FAILS = {"accumulation"}


def step(
    model: Any,
    batches: Sequence[tuple[Tensor, Tensor]],
    weights: Tensor | None = None,
) -> float:
    """Gradients are right, and a scheduler that looks at the loss is not."""

    def own(number: Tensor) -> Tensor:
        if number.is_floating_point():
            return number * dist.get_world_size()
        return sum_of_all(number)

    sum_of_all = sound.everywhere
    with patch.object(sound, "everywhere", own):
        return sound.step(model, batches, weights)
