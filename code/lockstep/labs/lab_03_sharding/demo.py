"""What a rank keeps, and what it gathers when; torchrun starts it."""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from lockstep.instruments.traffic import Traffic
from lockstep.labs.demo import show


def main(answer: Any) -> None:
    """One step of three layers of 16 x 16 numbers, 1,024 bytes each."""
    layers = [nn.Linear(16, 16, bias=False) for _ in range(3)]
    model = answer.ShardedDataParallel(nn.Sequential(*layers))
    optimizer = torch.optim.Adam(model.parameters())
    with Traffic() as forward:
        loss = model(torch.ones(1, 16)).sum()
    with Traffic() as backward:
        loss.backward()
        model.wait_for_gradients()
    optimizer.step()
    if dist.get_rank() == 0:
        moments = [
            one for of in optimizer.state.values() for one in of.values()
        ]
        print("parameters:", sum(p.nbytes for p in model.parameters()), "bytes")
        print("moments:", sum(m.nbytes for m in moments if m.dim()), "bytes")
        print("forward:", *(call.op for call in forward.calls))
        print("backward:", *(call.op for call in backward.calls))


if __name__ == "__main__":
    show(main)
