"""A round of micro-batches ends before the next one begins."""

from lockstep.exercises.labs.lab_06_pipeline.solution import *
from lockstep.parallel.pipeline import interleaved_schedule as sound

FAILS = {"bubble"}


def interleaved_schedule(
    stage: int, stages: int, micro_batches: int, chunks: int
) -> list[Action]:
    """The pipeline drains and fills again after every `stages` of them."""
    one_round = sound(stage, stages, stages, chunks)
    return [
        Action(kind, begin + number, chunk)
        for begin in range(0, micro_batches, stages)
        for kind, number, chunk in one_round
    ]
