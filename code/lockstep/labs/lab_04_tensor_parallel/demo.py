"""Lab 04: what a rank holds of an MLP, and what it says in a step.

torchrun --standalone --nproc-per-node=2 -m <this module> FILE
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from lockstep.instruments.traffic import Traffic, nbytes
from lockstep.labs.demo import show


def main(answer: Any) -> None:
    """Print it on rank 0, without sequence parallelism and with it."""
    up, down = nn.Linear(64, 256), nn.Linear(256, 64)
    whole = nbytes([*up.parameters(), *down.parameters()])
    for split in (False, True):
        block = answer.ParallelMLP(up, down, sequence_parallel=split)
        x = torch.ones(32 // (dist.get_world_size() if split else 1), 64)
        with Traffic() as forward:
            loss = block(x.requires_grad_()).sum()
        with Traffic() as backward:
            loss.backward()
        if dist.get_rank() == 0:
            held = nbytes([*block.parameters()])
            print(f"input {x.nbytes} bytes, parameters {held} of {whole}")
            for way, traffic in (("forward", forward), ("backward", backward)):
                calls = [f"{call.op} {call.bytes}" for call in traffic.calls]
                print(f"  {way}: {', '.join(calls)}")


if __name__ == "__main__":
    show(main)
