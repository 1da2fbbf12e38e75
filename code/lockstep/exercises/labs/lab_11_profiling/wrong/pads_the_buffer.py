"""Sends one buffer of a round size, most of which is zeros."""

import torch
import torch.distributed as dist

from lockstep.exercises.labs.lab_11_profiling import slow
from lockstep.exercises.labs.lab_11_profiling.solution import *

FAILS = {"trainer B"}


class B(slow.B):
    def sync(self) -> None:
        grads = [p.grad for p in self.model.parameters() if p.grad is not None]
        flat = torch.cat([grad.flatten() for grad in grads])
        rest = flat.new_zeros(2**17 - len(flat))
        dist.all_reduce(flat := torch.cat([flat, rest]))
        at = 0
        for grad in grads:
            grad.copy_(flat[at : at + grad.numel()].view_as(grad))
            at += grad.numel()
