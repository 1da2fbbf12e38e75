"""Heads that ranks do not divide are left out without a word."""

from typing import Any

import torch
from torch import Tensor

from lockstep.exercises.labs.lab_05_context_parallel.solution import *
from lockstep.parallel.collectives import Group, place
from lockstep.parallel.context_parallel import ulysses_attention as sound

FAILS = {"Ulysses"}


def ulysses_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    positions: Tensor,
    group: Group = None,
    **given: Any,
) -> Tensor:
    """The output of as many heads as can be divided; 0 of the others."""
    heads, ranks = q.shape[1], place(group)[1]
    most = heads - heads % ranks
    q_, k_, v_ = (x[:, :most] for x in (q, k, v))
    out = sound(q_, k_, v_, positions, group, **given)
    return torch.cat((out, torch.zeros_like(q[:, most:])), 1)
