"""Believes that a position is enough: another dataset's is accepted."""

from lockstep.exercises.labs.lab_10_checkpoint.solution import *
from lockstep.exercises.labs.lab_10_checkpoint.solution import Loader as Sound

FAILS = {"loader"}


class Loader(Sound):
    """Goes on in any order."""

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.position = state["position"]
