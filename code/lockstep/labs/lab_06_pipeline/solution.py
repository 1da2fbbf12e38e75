"""Lab 06: one solution, which the handbook quotes."""

from lockstep.parallel.pipeline import (
    Action,
    PipelineStage,
    gpipe_schedule,
    interleaved_schedule,
    one_f_one_b_schedule,
)

__all__ = [
    "Action",
    "PipelineStage",
    "gpipe_schedule",
    "interleaved_schedule",
    "one_f_one_b_schedule",
]
