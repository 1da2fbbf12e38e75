"""Hands the thread the weights, and no copy: by the time they are written they
are of a later step."""

import threading

from lockstep.exercises.labs.lab_11_profiling.solution import *
from lockstep.exercises.labs.lab_11_profiling.solution import D as Sound

FAILS = {"unchanged"}


class D(Sound):
    def save(self, step: int) -> None:
        if self.rank == 0:
            self.finish()
            state = {"step": step, "model": self.model.state_dict()}
            self.writer = threading.Thread(target=self.write, args=(state,))
            self.writer.start()
