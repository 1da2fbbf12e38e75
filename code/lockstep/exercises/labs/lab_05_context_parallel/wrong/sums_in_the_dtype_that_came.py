"""bfloat16 sums for bfloat16 inputs."""

import torch
from torch import Tensor

from lockstep.exercises.labs.lab_05_context_parallel.parts import sound_but
from lockstep.exercises.labs.lab_05_context_parallel.solution import *

FAILS = {"stability"}


def dtype_of_sums(x: Tensor) -> torch.dtype:
    """No wider than what came: 256 + 1 is 256."""
    return x.dtype


ring_attention = sound_but(dtype_of_sums=dtype_of_sums).ring_attention
