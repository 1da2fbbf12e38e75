"""Crops sequences, so that none is long: the ranks are balanced, and train
on something else."""

import json

from lockstep.exercises.labs.lab_11_profiling import slow
from lockstep.exercises.labs.lab_11_profiling.solution import *

FAILS = {"unchanged"}


class C(slow.C):
    def decode(self, line: str) -> slow.Sample:
        reads, y = json.loads(line)
        return super().decode(json.dumps([[r[:64] for r in reads], y]))
