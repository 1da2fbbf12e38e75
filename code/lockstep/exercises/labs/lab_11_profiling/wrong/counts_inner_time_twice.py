"""Each phase takes its own begin from its end, so what is inside it counts
for both, and phases add up to more than the step."""

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
        self.synchronize()
        begin = self.clock()
        self.open.append(name)
        try:
            yield
        finally:
            self.open.pop()
            self.synchronize()
            self.seconds[name] += self.clock() - begin
