"""Waits for the device once, when the step is over: then all of its time lies
in no phase, while phases have the time of their launches."""

from collections.abc import Iterator
from contextlib import contextmanager

from lockstep.exercises.labs.lab_11_profiling.solution import *
from lockstep.exercises.labs.lab_11_profiling.solution import (
    PhaseTimer as Sound,
)

FAILS = {"phase timer"}


class PhaseTimer(Sound):
    def turn(self) -> None:
        now = self.clock()
        if self.open:
            self.seconds[self.open[-1]] += now - self.since
        self.since = now

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        with super().span(name):
            yield
            if len(self.open) == 1:
                self.synchronize()
