"""A hop is a hop: all of them pay the network's latency."""

from lockstep.exercises.labs.lab_08_topology.solution import *
from lockstep.parallel.topology import predict as sound

FAILS = {"predict"}


def predict(algorithm: str, nbytes: float, cluster: Cluster) -> float:
    """As if there were switches between a node's ranks."""
    nodes, each, inner, outer = cluster
    if nodes > 1:
        inner = Link(outer.alpha, inner.beta)
    return sound(algorithm, nbytes, Cluster(nodes, each, inner, outer))
