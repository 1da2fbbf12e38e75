"""Least squares of seconds: the largest messages have the largest errors."""

from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np

from lockstep.exercises.labs.lab_08_topology.solution import *

FAILS = {"fit"}


def fit(times: Mapping[int, Sequence[float]]) -> Link:
    """A good bandwidth; the latency is what the largest ones leave over."""
    took = [median(each) for each in times.values()]
    beta, alpha = np.polyfit(list(times), took, 1)
    return Link(max(0.0, float(alpha)), max(0.0, float(beta)))
