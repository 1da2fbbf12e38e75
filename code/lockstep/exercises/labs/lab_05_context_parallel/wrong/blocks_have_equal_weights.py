"""The mean of each block's own attention."""

from typing import Any

import torch
from torch import Tensor

from lockstep.exercises.labs.lab_05_context_parallel.parts import sound_but
from lockstep.exercises.labs.lab_05_context_parallel.solution import *
from lockstep.parallel.context_parallel import Group, circulate

FAILS = {"ring forward"}


class Means:
    """In place of a running softmax."""

    @staticmethod
    def apply(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> Tensor:
        """As if the weights of each block added up to the same."""
        group: Group = rest[-1]
        found = []
        for _, (their_k, their_v) in circulate(torch.stack((k, v)), group):
            weights = (q @ their_k.mT * q.shape[-1] ** -0.5).softmax(-1)
            found.append(weights @ their_v)
        return torch.stack(found).mean(0)


ring_attention = sound_but(RingAttention=Means).ring_attention
