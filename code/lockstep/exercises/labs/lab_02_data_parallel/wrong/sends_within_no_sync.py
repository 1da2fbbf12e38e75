"""no_sync does nothing; the sums are right all the same."""

from collections.abc import Iterator
from contextlib import contextmanager

from lockstep.exercises.labs.lab_02_data_parallel.solution import *
from lockstep.parallel.data_parallel import DataParallel as Sound

FAILS = {"accumulation"}


class DataParallel(Sound):
    """As many all-reduces as micro-batches."""

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Send."""
        yield
