"""The first axis is taken for the one whose ranks are neighbors."""

from collections.abc import Mapping

from lockstep.exercises.labs.lab_08_topology.solution import *
from lockstep.parallel.topology import mesh_order as sound

FAILS = {"mesh order"}


def mesh_order(
    axes: Mapping[str, Axis], ranks_per_node: int
) -> tuple[str, ...]:
    """The right order, the wrong way round."""
    return sound(axes, ranks_per_node)[::-1]
