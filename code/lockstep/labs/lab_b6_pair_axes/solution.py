"""Lab B6: one solution, which the page quotes."""

from lockstep.labs.lab_b6_pair_axes.sound import (
    Mesh,
    attention,
    gather,
    incoming,
    outgoing,
    part,
    scatter,
    sum_gradients,
)

__all__ = [
    "Mesh",
    "attention",
    "gather",
    "incoming",
    "outgoing",
    "part",
    "scatter",
    "sum_gradients",
]
