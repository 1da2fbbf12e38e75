"""A share is as many tensors, however large they are."""

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import Tensor

from lockstep.exercises.labs.lab_03_sharding.solution import *
from lockstep.parallel import sharding

FAILS = {"optimizer state"}


def owner(number: int, tensors: int) -> int:
    """The rank that a tensor of a group is given to."""
    return number * dist.get_world_size() // tensors


def shares(flat: Tensor, shapes: list[torch.Size]) -> Iterator[slice]:
    """Whole tensors, or nothing of them."""
    for number, shape in enumerate(shapes):
        mine = owner(number, len(shapes)) == dist.get_rank()
        yield slice(shape.numel() if mine else 0)


class ShardedOptimizer(sharding.ShardedOptimizer):
    """The first rank has the three large ones."""

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Tensor by tensor."""
        with patch.object(sharding, "shares", shares):
            super().add_param_group(param_group)

    def step(self, closure: Any = None) -> Any:
        """Its owner broadcasts a tensor."""
        with patch.object(sharding, "all_gather"):
            loss = super().step(closure)
        for group in self.param_groups:
            params = group["params"]
            for number, param in enumerate(params):
                dist.broadcast(param.detach(), owner(number, len(params)))
        return loss
