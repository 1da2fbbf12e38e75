"""Lab B5: one solution, which the page quotes."""

from lockstep.labs.lab_b5_equivariance.sound import (
    EGNN,
    ChiralEGNN,
    breaks,
    rotations,
    tolerance,
)

__all__ = ["EGNN", "ChiralEGNN", "breaks", "rotations", "tolerance"]
