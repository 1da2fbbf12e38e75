"""Defect 7: `grad_accum_steps` enters `global_batch_size` and nothing else."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class TrainConfig:
    micro_batch_size: int = 8
    grad_accum_steps: int = 4
    world_size: int = 1

    @property
    def global_batch_size(self) -> int:
        """Samples per optimizer step, over all ranks."""
        return self.micro_batch_size * self.grad_accum_steps * self.world_size


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Iterable[tuple[Tensor, Tensor]],
) -> None:
    model.train()
    for x, y in batches:
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
