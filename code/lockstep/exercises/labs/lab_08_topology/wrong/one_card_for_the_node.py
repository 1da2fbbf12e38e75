"""A ring leaves its node over one rank's link; the others stay idle."""

from lockstep.exercises.labs.lab_08_topology.solution import *
from lockstep.parallel.topology import predict as sound

FAILS = {"predict"}


def predict(algorithm: str, nbytes: float, cluster: Cluster) -> float:
    """A flat ring or tree at the pace of one card."""
    nodes, each, inner, (alpha, beta) = cluster
    if algorithm != "hierarchical":
        cluster = Cluster(nodes, each, inner, Link(alpha, beta * each))
    return sound(algorithm, nbytes, cluster)
