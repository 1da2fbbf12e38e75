"""The process ends without a word."""

import os

from lockstep.exercises.labs.lab_11_profiling import slow
from lockstep.exercises.labs.lab_11_profiling.solution import *

FAILS = {"trainer A", "unchanged"}


class A(slow.A):
    def decode(self, line: str) -> slow.Sample:
        """Nothing: an extension that crashes ends so."""
        os.abort()
