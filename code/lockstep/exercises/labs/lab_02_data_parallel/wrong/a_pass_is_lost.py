"""What arrived while an all-reduce was under way is written over."""

from lockstep.exercises.labs.lab_02_data_parallel.solution import *
from lockstep.parallel.data_parallel import DataParallel as Sound

FAILS = {"accumulation"}


class DataParallel(Sound):
    """A step with a part of its data."""

    def wait_for_gradients(self) -> None:
        """The means, in place of what has come since."""
        for bucket in self.buckets:
            if bucket not in self.waiting:
                for param in bucket.params:
                    param.grad = None
        super().wait_for_gradients()
