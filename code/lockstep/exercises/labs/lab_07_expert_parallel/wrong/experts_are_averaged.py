"""Experts' gradients are made a mean over ranks, as DDP's are."""

from typing import Any

import torch.distributed as dist

from lockstep.exercises.labs.lab_07_expert_parallel.solution import *
from lockstep.parallel.expert_parallel import ExpertParallel as Sound

FAILS = {"backward"}


class ExpertParallel(Sound):
    """The layer, with too small a step for its experts."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        ranks = dist.get_world_size(self.group)
        for one in self.experts.parameters():
            one.register_hook(lambda gradient: gradient / ranks)
