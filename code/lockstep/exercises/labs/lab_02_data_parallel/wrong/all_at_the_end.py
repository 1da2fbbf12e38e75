"""Asynchronous, but no all-reduce starts before the pass is over."""

from torch import Tensor

from lockstep.exercises.labs.lab_02_data_parallel.solution import *
from lockstep.parallel.data_parallel import DataParallel as Sound

FAILS = {"overlap"}


class DataParallel(Sound):
    """Communication after computation."""

    def _arrived(self, param: Tensor) -> None:
        """Leave everything to `wait_for_gradients`."""
