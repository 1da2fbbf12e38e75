"""Waits where a phase ends and not where a step begins: what the step before
has launched is booked on this one."""

from collections.abc import Iterator
from contextlib import contextmanager

from lockstep.exercises.labs.lab_11_profiling.solution import *
from lockstep.exercises.labs.lab_11_profiling.solution import (
    PhaseTimer as Sound,
)

FAILS = {"phase timer"}


class PhaseTimer(Sound):
    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        if not self.open:
            self.since = self.clock()
            self.open.append(name)
            yield
            self.turn()
            self.open.pop()
            return
        with super().span(name):
            yield
