"""Trains a third as many steps."""

from lockstep.exercises.labs.lab_11_profiling import slow
from lockstep.exercises.labs.lab_11_profiling.solution import *

FAILS = {"unchanged"}


class A(slow.A):
    steps = 3
