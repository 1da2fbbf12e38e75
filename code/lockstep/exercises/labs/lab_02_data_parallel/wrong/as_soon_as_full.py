"""A full bucket does not wait for those before it."""

from torch import Tensor

from lockstep.exercises.labs.lab_02_data_parallel.solution import *
from lockstep.parallel.data_parallel import DataParallel as Sound

FAILS = {"unused"}


class DataParallel(Sound):
    """Ranks that use other layers average one with another."""

    def _arrived(self, param: Tensor) -> None:
        if self.silent:
            return
        bucket = self.bucket[param]
        if param not in bucket.missing:
            self.wait_for_gradients()
        bucket.missing.remove(param)
        if not bucket.missing:
            self.waiting.remove(bucket)
            bucket.start()
