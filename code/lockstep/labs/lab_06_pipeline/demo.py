"""Three schedules of one step on two stages; torchrun starts it."""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from lockstep.instruments.traffic import Traffic
from lockstep.labs.demo import show


def main(answer: Any) -> None:
    """Four micro-batches through four layers, in two parts or in four."""
    rank = dist.get_rank()
    for name, chunks in (("gpipe", 1), ("one_f_one_b", 1), ("interleaved", 2)):
        rounds = [chunks] if chunks > 1 else []
        make = getattr(answer, f"{name}_schedule")
        schedule = make(rank, 2, 4, *rounds)
        torch.manual_seed(0)
        layers, each = [nn.Linear(8, 8) for _ in range(4)], 2 // chunks
        parts = [
            nn.Sequential(*layers[begin : begin + each])
            for begin in range(0, 4, each)
        ]
        x = torch.ones(4, 1, 8)
        stage = answer.PipelineStage(
            parts[rank::2], nn.functional.mse_loss, torch.empty_like(x[0])
        )
        with Traffic() as traffic:
            stage.run(schedule, **{"targets" if rank else "inputs": list(x)})
        if rank == 0:
            marks = [f"{kind}{m}" + "'" * chunk for kind, m, chunk in schedule]
            print(f"{name}:", *marks)
            sends = sum(call.op == "send" for call in traffic.calls)
            gradient = layers[0].weight.grad
            assert gradient is not None
            print(f"  {sends} sends; layer 0's gradient has norm", end=" ")
            print(f"{gradient.norm():.5f}")


if __name__ == "__main__":
    show(main)
