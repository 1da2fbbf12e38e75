"""Gives the long samples to another rank in each step: over the run all have
worked alike, and in each step all have waited for one."""

from lockstep.exercises.labs.lab_11_profiling import slow
from lockstep.exercises.labs.lab_11_profiling.solution import *

FAILS = {"trainer C"}


class C(slow.C):
    turn = 0

    def share(self, ids: list[int]) -> list[int]:
        part = len(ids) // self.world
        first = part * ((self.rank + self.turn) % self.world)
        self.turn += 1
        return ids[first : first + part]
