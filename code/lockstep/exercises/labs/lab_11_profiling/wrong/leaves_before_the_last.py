"""Waits for the checkpoint before, and for the last one never."""

import threading
from copy import deepcopy

from lockstep.exercises.labs.lab_11_profiling.solution import *
from lockstep.exercises.labs.lab_11_profiling.solution import D as Sound

FAILS = {"unchanged"}


class D(Sound):
    def save(self, step: int) -> None:
        if self.rank == 0:
            super().finish()
            state = {"step": step, "model": deepcopy(self.model.state_dict())}
            self.writer = threading.Thread(target=self.write, args=(state,))
            self.writer.start()

    def finish(self) -> None:
        """Nothing."""
