"""A tree up to 1 MB, a ring from there on, on every cluster."""

from lockstep.exercises.labs.lab_08_topology.solution import *

FAILS = {"choose"}


def choose(nbytes: float, cluster: Cluster) -> str:
    """By the size alone."""
    return "tree" if nbytes < 1e6 else "ring"
