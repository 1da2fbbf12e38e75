"""The process ends without a word."""

import os
from typing import Any

from torch import Tensor

from lockstep.exercises.labs.lab_05_context_parallel.parts import sound_but
from lockstep.exercises.labs.lab_05_context_parallel.solution import *

FAILS = {"ring forward"}


def circulate(block: Tensor, group: Any) -> Any:
    """Nothing: an extension that crashes ends so."""
    os.abort()


ring_attention = sound_but(circulate=circulate).ring_attention
