"""The process ends without a word."""

import os

from torch import Tensor

from lockstep.exercises.labs.lab_01_collectives.solution import *
from lockstep.parallel.collectives import Group

FAILS = {"send and recv alone", "all-to-all"}


def all_to_all(
    outputs: list[Tensor], inputs: list[Tensor], group: Group = None
) -> None:
    """Nothing: an extension that crashes ends so."""
    os.abort()
