"""Defect 7: `grad_accum_steps` enters `global_batch_size` and nothing else."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockstep.debugging.silent.toy import small_model, toy


# --8<-- [start:copy]
@dataclass(frozen=True)
class TrainConfig:
    """What a run is."""

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
    """One epoch of micro-batches."""
    model.train()
    for x, y in batches:
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


# --8<-- [end:copy]
def run() -> tuple[int, int]:
    """Train on 256 samples under `TrainConfig()`; how many, in how many
    optimizer steps."""
    size = TrainConfig().micro_batch_size
    model, (x, y) = small_model(), toy()
    optimizer = torch.optim.AdamW(model.parameters())
    train(model, optimizer, zip(x.split(size), y.split(size), strict=True))
    taken = {int(state["step"]) for state in optimizer.state.values()}
    return len(x), taken.pop()


def demonstrate() -> None:
    """Print the batch that is stated, and the batch that is trained."""
    print(f"stated: {TrainConfig().global_batch_size} samples a step")
    samples, steps = run()
    print(f"trained: {samples // steps} samples a step, in {steps} steps")
