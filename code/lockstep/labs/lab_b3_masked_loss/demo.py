"""Lab B3: the gradient of thin labels, by a rank's own mean and by the answer.

torchrun --standalone --nproc-per-node=2 -m <this module> FILE
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from lockstep.labs.demo import show

ROWS, FEATURES, TASKS = 16, 8, 5
FILL = [0.4, 0.02]  # rank 0 reads a screen, rank 1 what came of it


def rows(rank: int) -> tuple[Tensor, Tensor]:
    """A rank's molecules and their values."""
    generator = torch.Generator().manual_seed(rank)
    x, y = torch.randn(2, ROWS, FEATURES, generator=generator)
    there = torch.rand(ROWS, TASKS, generator=generator) < FILL[rank]
    return x, y[:, :TASKS].masked_fill(~there, torch.nan)


def model() -> nn.Linear:
    """The same on every rank."""
    torch.manual_seed(0)
    return nn.Linear(FEATURES, TASKS)


def own_mean(predicted: Tensor, values: Tensor) -> Tensor:
    """What a process by itself would do."""
    there = ~values.isnan()
    return (predicted[there] - values[there]).square().mean()


def main(answer: Any) -> None:
    """Of 16 molecules a rank; the truth is one process with all 32."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    own = [rows(one) for one in range(ranks)]
    x, values = map(torch.cat, zip(*own, strict=True))
    right = model()
    own_mean(right(x), values).backward()
    assert right.weight.grad is not None
    ways: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "own mean": own_mean,
        "masked_loss": answer.masked_loss,
    }
    if rank == 0:
        print("labels:", *(int((~y.isnan()).sum()) for _, y in own))
    for name, loss in ways.items():
        ddp = DistributedDataParallel(model())
        x, y = own[rank]
        loss(ddp(x), y).backward()
        found = ddp.module.weight.grad
        off = (found - right.weight.grad).norm() / right.weight.grad.norm()
        if rank == 0:
            print(f"{name}: the gradient is off by {off:.1%}")


if __name__ == "__main__":
    show(main)
