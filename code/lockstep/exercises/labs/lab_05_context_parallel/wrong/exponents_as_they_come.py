"""Sums of exp(score), divided at the end: right until a score is 89."""

from typing import Any

import torch
from torch import Tensor

from lockstep.exercises.labs.lab_05_context_parallel.parts import sound_but
from lockstep.exercises.labs.lab_05_context_parallel.solution import *
from lockstep.parallel.context_parallel import (
    RingAttention,
    circulate,
    place,
    scores,
    visible,
)

FAILS = {"stability"}


class Plain(RingAttention):
    """No maximum, no log: one sum above the line, one below."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, places: Tensor, group: Any
    ) -> Tensor:
        """exp(89) is no float32."""
        mine = places[place(group)[0]]
        out = torch.zeros_like(q, dtype=torch.float32)
        total = out[..., :1].clone()
        for owner, block in circulate(torch.stack((k, v)), group):
            if not (seen := visible(mine, theirs := places[owner])):
                continue
            rows, keys = seen
            their_k, their_v = block[..., keys, :].float()
            my_q = q[..., rows, :].float()
            weights = scores(my_q, their_k, mine[rows], theirs[keys]).exp()
            out[..., rows, :] += weights @ their_v
            total[..., rows, :] += weights.sum(-1, keepdim=True)
        out = (out / total).to(q.dtype)
        ctx.save_for_backward(q, k, v, places, out, total.log())
        ctx.group = group
        return out


ring_attention = sound_but(RingAttention=Plain).ring_attention
