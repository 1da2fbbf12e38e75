"""The router learns from the auxiliary loss alone."""

from typing import Any

from torch import Tensor

from lockstep.exercises.labs.lab_07_expert_parallel.solution import *
from lockstep.parallel.expert_parallel import combine as sound

FAILS = {"backward"}


def combine(outputs: list[Tensor], trip: Any) -> Tensor:
    """The outputs, with weights that have no gradient."""
    weights = trip.routing.weights.detach()
    return sound(
        outputs, trip._replace(routing=trip.routing._replace(weights=weights))
    )
