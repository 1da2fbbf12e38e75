"""Lab 07: one solution, which the handbook quotes."""

from lockstep.parallel.expert_parallel import (
    ExpertParallel,
    Routing,
    combine,
    dispatch,
    load_balancing_loss,
    route,
)

__all__ = [
    "ExpertParallel",
    "Routing",
    "combine",
    "dispatch",
    "load_balancing_loss",
    "route",
]
