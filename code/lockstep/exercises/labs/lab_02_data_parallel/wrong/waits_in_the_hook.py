"""A hook ends when its all-reduce has."""

from torch import Tensor

from lockstep.exercises.labs.lab_02_data_parallel.solution import *
from lockstep.parallel.data_parallel import DataParallel as Sound

FAILS = {"overlap"}
SECONDS = 10  # it hangs


class DataParallel(Sound):
    """The backward pass stands still at every bucket."""

    def _arrived(self, param: Tensor) -> None:
        super()._arrived(param)
        for bucket in self.buckets:
            if bucket not in self.waiting:
                bucket.work.wait()
