"""A single expert's weight is scaled to 1, a constant."""

from torch import Tensor

from lockstep.exercises.labs.lab_07_expert_parallel.solution import *
from lockstep.parallel.expert_parallel import route as sound

FAILS = {"routing"}


def route(logits: Tensor, k: int, capacity: int) -> Routing:
    """With k = 1, a router that never learns from the output."""
    routing = sound(logits, k, capacity)
    weights = routing.weights / routing.weights.sum(-1, keepdim=True)
    return routing._replace(weights=weights)
