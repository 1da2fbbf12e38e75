"""Gives each rank as many letters; attention costs their square."""

from lockstep.exercises.labs.lab_11_profiling import slow
from lockstep.exercises.labs.lab_11_profiling.solution import *

FAILS = {"trainer C"}


class C(slow.C):
    def share(self, ids: list[int]) -> list[int]:
        shares: list[list[int]] = [[] for _ in range(self.world)]
        letters = [0] * self.world
        for i in sorted(ids, key=lambda i: (-self.lengths[i], i)):
            rank = letters.index(min(letters))
            shares[rank].append(i)
            letters[rank] += self.lengths[i]
        return shares[self.rank]
