"""A rank without tokens has nothing to do, so the others wait for it."""

from torch import Tensor

from lockstep.exercises.labs.lab_07_expert_parallel.solution import *
from lockstep.parallel.expert_parallel import ExpertParallel as Sound

FAILS = {"uneven loads"}


class ExpertParallel(Sound):
    """The layer, which is left before its first collective."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Nothing for nobody."""
        if not len(x):
            return x, x.sum(), x.new_zeros(())
        return super().forward(x)
