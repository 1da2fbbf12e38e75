"""What has arrived in step 0 counts as arrived for ever."""

from lockstep.exercises.labs.lab_02_data_parallel.solution import *
from lockstep.parallel.data_parallel import DataParallel as Sound

FAILS = {"mean of gradients", "accumulation"}


class DataParallel(Sound):
    """Replicas that drift apart from the second step on."""

    def wait_for_gradients(self) -> None:
        """Once."""
        if not self.silent:
            super().wait_for_gradients()
        self.silent = True
