"""Rows come home by an all-to-all that autograd does not see."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from lockstep.exercises.labs.lab_07_expert_parallel.solution import *

FAILS = {"backward"}


def combine(outputs: list[Tensor], trip: Any) -> Tensor:
    """The outputs, without a gradient for what made them."""
    rows = torch.cat(outputs)[trip.order.argsort()]
    home = rows.new_empty(sum(trip.gives), rows.shape[1])
    dist.all_to_all_single(home, rows, trip.gives, trip.takes, group=trip.group)
    weights = trip.routing.weights.unsqueeze(-1)
    spread = home.new_zeros(weights.numel(), home.shape[1])
    spread[trip.choices] = home
    return (weights * spread.view(*weights.shape[:2], home.shape[1])).sum(1)
