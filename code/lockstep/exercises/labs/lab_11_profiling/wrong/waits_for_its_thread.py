"""Starts a thread, and waits for it where it started it."""

from lockstep.exercises.labs.lab_11_profiling.solution import *
from lockstep.exercises.labs.lab_11_profiling.solution import D as Sound

FAILS = {"trainer D"}


class D(Sound):
    def save(self, step: int) -> None:
        super().save(step)
        self.finish()
