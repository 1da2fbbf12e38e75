"""Counts a batch when the next one is asked for: the last one is repeated."""

from collections.abc import Iterator
from typing import Any

from lockstep.exercises.labs.lab_10_checkpoint.solution import *
from lockstep.exercises.labs.lab_10_checkpoint.solution import Loader as Sound

FAILS = {"loader"}


class Loader(Sound):
    """One batch behind."""

    def __iter__(self) -> Iterator[list[Any]]:
        n, start = len(self.dataset), self.position
        end = (start // n + 1) * n
        for at in range(start, end, self.batch_size):
            batch = self.fetch(at, end)
            yield batch
            self.position += len(batch)
