"""Saves at the end alone: a crash costs the whole run."""

from lockstep.exercises.labs.lab_11_profiling.solution import *
from lockstep.exercises.labs.lab_11_profiling.solution import D as Sound

FAILS = {"unchanged"}


class D(Sound):
    every = 8
