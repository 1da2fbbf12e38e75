"""Cold messages and a busy processor count as all others do."""

from collections.abc import Mapping, Sequence
from statistics import mean

from lockstep.exercises.labs.lab_08_topology.solution import *
from lockstep.exercises.labs.lab_08_topology.solution import fit as sound

FAILS = {"fit"}


def fit(times: Mapping[int, Sequence[float]]) -> Link:
    """A link that is often as slow as its slowest messages."""
    return sound({nbytes: [mean(each)] for nbytes, each in times.items()})
