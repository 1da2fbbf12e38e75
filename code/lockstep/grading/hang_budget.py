"""How long a grading waits for what hangs: a minute, all parts together."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from .ranks import OutOfTimeError, at_most

MINUTE = 60  # seconds, which everything that hangs may cost together
HALF_A_MINUTE = 30  # until the first that hangs is ended


class HangBudget:
    """The seconds that are left for jobs that hang.

    A job that comes to its end costs nothing, however slow it is. Until one has
    hung, each job gets all the time that it asks for, so no answer fails only
    because the machine is busy. After that, the jobs to come share what is
    left: one function that hangs does not cost the points of all others.
    """

    def __init__(self, seconds: float = MINUTE) -> None:
        self.left = seconds
        self.jobs = 1  # still to come
        self.hung = False  # whether any has

    def granted(self, asked: float) -> float:
        """Seconds for the next job."""
        share = self.left / self.jobs if self.hung else self.left
        return min(asked, share)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Around a job: if it hangs, the time that it took is gone."""
        began = monotonic()
        try:
            with at_most(self.left):
                yield
        except OutOfTimeError:
            self.left = max(0, self.left - (monotonic() - began))
            self.hung = True
            raise
