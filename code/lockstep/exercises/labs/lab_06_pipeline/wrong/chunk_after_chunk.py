"""All micro-batches pass a chunk before the next one begins."""

from lockstep.exercises.labs.lab_06_pipeline.solution import *

FAILS = {"in flight"}


def interleaved_schedule(
    stage: int, stages: int, micro_batches: int, chunks: int
) -> list[Action]:
    """The bubble is right; all activations are held."""
    every = [
        (m, chunk) for chunk in range(chunks) for m in range(micro_batches)
    ]
    last = chunks - 1
    return [
        *(Action("F", *one) for one in every),
        *(Action("B", m, last - chunk) for m, chunk in every),
    ]
