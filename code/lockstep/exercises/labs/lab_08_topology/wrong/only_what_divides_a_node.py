"""An axis belongs into the node only if its degree divides it."""

from collections.abc import Mapping

from lockstep.exercises.labs.lab_08_topology.solution import *
from lockstep.parallel.topology import mesh_order as sound

FAILS = {"mesh order"}


def mesh_order(
    axes: Mapping[str, Axis], ranks_per_node: int
) -> tuple[str, ...]:
    """All others go outside, though most of their groups would fit."""
    order = sound(axes, ranks_per_node)
    fits = [n for n in order if ranks_per_node % axes[n].degree == 0]
    return (*(n for n in order if n not in fits), *fits)
