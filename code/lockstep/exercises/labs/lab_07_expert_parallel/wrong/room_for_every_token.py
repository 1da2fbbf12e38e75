"""Buffers hold all tokens of a rank for each expert, so nothing overflows."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from lockstep.exercises.labs.lab_07_expert_parallel.solution import *
from lockstep.parallel.collectives import Group, place
from lockstep.parallel.expert_parallel import AllToAll

FAILS = {"bytes"}


def dispatch(
    x: Tensor, routing: Routing, group: Group = None
) -> tuple[list[Tensor], Any]:
    """The rows among zeros: n / k times the bytes, for n experts."""
    longest = torch.tensor(len(x))
    dist.all_reduce(longest, dist.ReduceOp.MAX, group=group)
    room, n = int(longest), len(routing.load)
    (_, ranks), each = place(group), n // dist.get_world_size(group)
    token, _ = routing.kept.nonzero(as_tuple=True)
    where = (routing.experts * room + routing.slots)[routing.kept]
    full = x.new_zeros(n * room, x.shape[1]).index_copy(0, where, x[token])
    sizes = [each * room] * ranks
    arrived = AllToAll.apply(full, sizes, sizes, group)
    parts = arrived.view(ranks, each, room, x.shape[1]).transpose(0, 1)
    return list(parts.flatten(1, 2)), (routing, where, sizes, room, group)


def combine(outputs: list[Tensor], trip: Any) -> Tensor:
    """Back the same way."""
    routing, where, sizes, room, group = trip
    width = outputs[0].shape[1]
    parts = torch.stack(outputs).view(len(outputs), -1, room, width)
    full = parts.transpose(0, 1).reshape(-1, width)
    home = AllToAll.apply(full, sizes, sizes, group)[where]
    token, _ = routing.kept.nonzero(as_tuple=True)
    weights = routing.weights[routing.kept].unsqueeze(1)
    empty = home.new_zeros(len(routing.weights), width)
    return empty.index_add(0, token, weights * home)
