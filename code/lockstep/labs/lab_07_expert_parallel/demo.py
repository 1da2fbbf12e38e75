"""Eight tokens on each of two ranks, and four experts.

    torchrun --standalone --nproc-per-node=2 \\
        -m lockstep.labs.lab_07_expert_parallel.demo FILE
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from lockstep.labs.demo import show


def main(answer: Any) -> None:
    """What rank 0 routes, what its experts get, and what is dropped."""
    rank = dist.get_rank()
    torch.manual_seed(rank)
    x = torch.randn(8, 4)
    torch.manual_seed(0)  # a model is alike on all ranks
    router, experts = nn.Linear(4, 4), [nn.Linear(4, 4) for _ in range(4)]
    k, capacity = 2, 3
    routing = answer.route(router(x), k, capacity)
    rows, _ = answer.dispatch(x, routing)
    layer = answer.ExpertParallel(router, experts, k, capacity)
    output, loss, dropped = layer(x)
    dist.all_reduce(loss)
    if rank == 0:
        kept = routing.load.clamp(max=capacity).tolist()
        empty = (~output.any(1)).nonzero().flatten().tolist()
        print("rank 0's choices of experts 0 to 3:", routing.load.tolist())
        print("kept, with a capacity of 3:        ", kept)
        print("rows that came for experts 0 and 1:", [len(one) for one in rows])
        print("choices dropped on both ranks:     ", int(dropped))
        print("tokens of rank 0 without an expert:", empty)
        print(f"balance over both ranks, 1 if even: {loss:.3f}")


if __name__ == "__main__":
    show(main)
