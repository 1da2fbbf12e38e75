"""The process ends without a word."""

import os
from typing import Any

from torch import Tensor

from lockstep.exercises.labs.lab_07_expert_parallel.solution import *

FAILS = {"dispatch and combine"}


def combine(outputs: list[Tensor], trip: Any) -> Tensor:
    """Nothing: a kernel that crashes ends so."""
    os.abort()
