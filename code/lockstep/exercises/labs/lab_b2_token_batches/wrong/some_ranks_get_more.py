"""Batches are dealt as cards, and nobody asks whether they come out even."""

from lockstep.exercises.labs.lab_b2_token_batches.solution import *

FAILS = {"other worlds"}


def share(step: list[list[int]], rank: int, world: int) -> list[list[int]]:
    """Right, where ranks divide the batches."""
    return step[rank::world]
