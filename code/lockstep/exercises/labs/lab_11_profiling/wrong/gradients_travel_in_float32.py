"""Halves the bytes by rounding every gradient."""

import torch
import torch.distributed as dist

from lockstep.exercises.labs.lab_11_profiling import slow
from lockstep.exercises.labs.lab_11_profiling.solution import *

FAILS = {"unchanged"}


class B(slow.B):
    def sync(self) -> None:
        grads = [p.grad for p in self.model.parameters() if p.grad is not None]
        flat = torch.cat([grad.flatten().float() for grad in grads])
        dist.all_reduce(flat)
        parts = flat.split([grad.numel() for grad in grads])
        for grad, part in zip(grads, parts, strict=True):
            grad.copy_(part.view_as(grad))
