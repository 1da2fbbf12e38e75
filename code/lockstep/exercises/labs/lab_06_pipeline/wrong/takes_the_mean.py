"""Losses are a mean over micro-batches, whatever their weights."""

from collections.abc import Iterable, Sequence

from torch import Tensor

from lockstep.exercises.labs.lab_06_pipeline.solution import *
from lockstep.parallel.pipeline import PipelineStage as Sound

FAILS = {"gradients"}


class PipelineStage(Sound):
    """The loss is divided once more."""

    def run(
        self,
        schedule: Iterable[Action],
        inputs: Sequence[Tensor] = (),
        targets: Sequence[Tensor] = (),
    ) -> list[Tensor]:
        """Gradients too small by the number of micro-batches."""
        weighted = self.loss_fn
        self.loss_fn = lambda y, target: weighted(y, target) / len(targets)
        try:
            losses = super().run(schedule, inputs, targets)
        finally:
            self.loss_fn = weighted
        return [loss * len(targets) for loss in losses]
