"""Where there are nodes, hierarchical is best; in one node a ring."""

from lockstep.exercises.labs.lab_08_topology.solution import *

FAILS = {"choose"}


def choose(nbytes: float, cluster: Cluster) -> str:
    """By the cluster's shape alone."""
    return "hierarchical" if cluster.nodes > 1 else "ring"
