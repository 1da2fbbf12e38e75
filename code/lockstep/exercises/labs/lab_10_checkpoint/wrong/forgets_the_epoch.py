"""Saves the place in the epoch, and not which epoch: it resumes in the first
epoch's order."""

from lockstep.exercises.labs.lab_10_checkpoint.solution import *
from lockstep.exercises.labs.lab_10_checkpoint.solution import Loader as Sound

FAILS = {"loader"}


class Loader(Sound):
    """Always in its first epoch."""

    def state_dict(self) -> dict[str, int]:
        within = self.position % len(self.dataset)
        return {**super().state_dict(), "position": within}
