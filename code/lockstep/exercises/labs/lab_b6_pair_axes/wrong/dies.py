"""The process ends without a word."""

import os

from torch import Tensor

from lockstep.exercises.labs.lab_b6_pair_axes.solution import *

FAILS = {"outgoing"}


def outgoing(a: Tensor, b: Tensor, mesh: Mesh) -> Tensor:
    """Nothing: an extension that crashes ends so."""
    os.abort()
