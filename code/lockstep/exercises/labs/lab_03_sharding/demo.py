"""What a rank keeps, and what it gathers when; torchrun starts it."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from lockstep.exercises.grading.criteria import load
from lockstep.instruments.traffic import Traffic
from lockstep.trainer.extensions.launcher import run_and_leave


def main() -> None:
    """One step of three layers of 16 x 16 numbers, 1,024 bytes each."""
    answer = load(Path(sys.argv[1]))
    dist.init_process_group("gloo")
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
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    run_and_leave(main)
