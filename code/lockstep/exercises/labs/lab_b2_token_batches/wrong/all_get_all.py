"""Every rank takes the whole step."""

from lockstep.exercises.labs.lab_b2_token_batches.solution import *
from lockstep.exercises.labs.lab_b2_token_batches.solution import share as sound

FAILS = {"other worlds"}


def share(step: list[list[int]], rank: int, world: int) -> list[list[int]]:
    """Right, on one rank."""
    sound(step, rank, world)
    return step
