"""A message is known by its sender alone."""

from typing import Any

from lockstep.exercises.labs.lab_06_pipeline.solution import *
from lockstep.parallel.pipeline import PipelineStage as Sound

FAILS = {"any schedule"}


class PipelineStage(Sound):
    """With several chunks, activations and gradients go the same way."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        one = self.channels["F", 0]
        self.channels = dict.fromkeys(self.channels, one)
