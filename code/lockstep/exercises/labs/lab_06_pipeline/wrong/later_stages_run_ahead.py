"""Warm-up grows towards the end of the pipeline."""

from lockstep.exercises.labs.lab_06_pipeline.solution import *
from lockstep.parallel.pipeline import alternate, in_order

FAILS = {"1f1b"}


def one_f_one_b_schedule(
    stage: int, stages: int, micro_batches: int
) -> list[Action]:
    """A deadlock: stage 0 waits for a gradient, the others for its next."""
    numbers = in_order("F", micro_batches), in_order("B", micro_batches)
    return alternate(*numbers, warm_up=stage)
