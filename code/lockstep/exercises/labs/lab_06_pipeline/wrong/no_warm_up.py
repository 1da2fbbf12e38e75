"""One forward, one backward, from the first micro-batch on."""

from lockstep.exercises.labs.lab_06_pipeline.solution import *

FAILS = {"bubble"}


def one_f_one_b_schedule(
    stage: int, stages: int, micro_batches: int
) -> list[Action]:
    """The least activations there can be, and one stage at work."""
    return [
        Action(kind, number) for number in range(micro_batches) for kind in "FB"
    ]
