"""The causal mask compares places in the blocks."""

from typing import Any

import torch
from torch import Tensor

from lockstep.exercises.labs.lab_05_context_parallel.solution import *
from lockstep.parallel.context_parallel import ring_attention as sound

FAILS = {"global positions"}


def ring_attention(
    q: Tensor, k: Tensor, v: Tensor, positions: Tensor, *rest: Any, **given: Any
) -> Tensor:
    """Each block is a sequence of its own."""
    return sound(q, k, v, torch.arange(len(positions)), *rest, **given)
