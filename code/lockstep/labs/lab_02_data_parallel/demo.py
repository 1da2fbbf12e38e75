"""Lab 02, to look at: when gradients exist, and when they set out.

    torchrun --standalone --nproc-per-node=2 -m \\
        lockstep.labs.lab_02_data_parallel.demo FILE
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from lockstep.instruments.traffic import Traffic
from lockstep.labs.demo import show


def main(answer: Any) -> None:
    """One backward pass through six layers of 16 KiB, in buckets of 32 KiB."""
    layers = [nn.Linear(64, 64, bias=False) for _ in range(6)]
    traffic = Traffic()
    for number, layer in enumerate(layers):
        mark = f"gradient {number}"
        layer.weight.register_hook(lambda _, m=mark: traffic.events.append(m))
    model = answer.DataParallel(nn.Sequential(*layers), bucket_mb=1 / 32)
    loss = model(torch.full((1, 64), 1.0 + dist.get_rank())).sum()
    with traffic:
        loss.backward()
        traffic.events.append("the pass ends")
        model.wait_for_gradients()
    if dist.get_rank() == 0:
        told = [e if isinstance(e, str) else e.op for e in traffic.events]
        print(" > ".join(told).replace(" > all", "\n  all"))
        kib = traffic.sent / 2**10
        print(f"6 gradients of 16 KiB, {kib:.0f} KiB sent by each rank")


if __name__ == "__main__":
    show(main)
