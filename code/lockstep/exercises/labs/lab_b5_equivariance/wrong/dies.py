"""The process ends without a word."""

import os

from torch import Tensor

from lockstep.exercises.labs.lab_b5_equivariance.solution import *

FAILS = {"rotations"}


def rotations(count: int, seed: int) -> Tensor:
    """Nothing: an extension that crashes ends so."""
    os.abort()
