"""A part is a parameter, and parameters are trained."""

from typing import Any

from torch import nn

from lockstep.exercises.labs.lab_03_sharding.solution import *
from lockstep.parallel import sharding

FAILS = {"frozen and shared"}


class ShardedDataParallel(sharding.ShardedDataParallel):
    """Weight decay eats the frozen layers."""

    def __init__(self, module: nn.Module, **given: Any) -> None:
        super().__init__(module.requires_grad_(True), **given)
