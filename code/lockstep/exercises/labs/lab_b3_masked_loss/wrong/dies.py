"""The process ends without a word."""

import os
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from lockstep.exercises.labs.lab_b3_masked_loss.solution import *

FAILS = {"accumulation"}


def step(
    model: Any,
    batches: Sequence[tuple[Tensor, Tensor]],
    weights: Tensor | None = None,
) -> float:
    """Nothing: an extension that crashes ends so."""
    os.abort()
