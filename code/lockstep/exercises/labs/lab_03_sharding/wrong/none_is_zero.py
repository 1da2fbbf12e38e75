"""A parameter without a gradient has one of zeros."""

from typing import Any

import torch

from lockstep.exercises.labs.lab_03_sharding.solution import *
from lockstep.parallel import sharding

FAILS = {"step"}


class ShardedOptimizer(sharding.ShardedOptimizer):
    """AdamW decays what has not been used."""

    def step(self, closure: Any = None) -> Any:
        """Of every parameter."""
        for param, _, _ in self.parts:
            if param.grad is None:
                param.grad = torch.zeros_like(param)
        return super().step(closure)
