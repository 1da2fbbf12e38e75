"""Distances are all that it hears, and a mirror image has the same."""

from lockstep.exercises.labs.lab_b5_equivariance.solution import *

FAILS = {"chiral layer"}


class ChiralEGNN(EGNN):
    """No network of distances tells left from right, however deep."""
