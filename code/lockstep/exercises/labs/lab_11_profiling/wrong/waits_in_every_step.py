"""Waits for the device in steps that it does not time: the timer slows what
it measures."""

from collections.abc import Iterator
from contextlib import contextmanager

from lockstep.exercises.labs.lab_11_profiling.solution import *
from lockstep.exercises.labs.lab_11_profiling.solution import (
    PhaseTimer as Sound,
)

FAILS = {"phase timer"}


class PhaseTimer(Sound):
    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self.synchronize()
        with super().phase(name):
            yield
            self.synchronize()
