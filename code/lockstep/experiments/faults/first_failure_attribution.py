"""The rank that fails first leaves last. Whom does torchrun name?

    torchrun --standalone --nproc-per-node=2 \\
        -m lockstep.experiments.faults.first_failure_attribution
"""

import time

import torch
import torch.distributed as dist

UPLOAD = 60.0  # seconds, were it not ended before


# --8<-- [start:leaves]
def train(rank: int) -> None:
    """Rank 1 finds a bad label; rank 0 waits for it in an all-reduce."""
    for step in range(5):
        if rank == 1 and step == 3:
            raise ValueError("label 10 of 10 classes")
        dist.all_reduce(torch.ones(4))


def main() -> None:
    """Clean up as many scripts do: the group first, then a slow upload."""
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    try:
        train(rank)
    finally:
        dist.destroy_process_group()
        if rank == 1:
            time.sleep(UPLOAD)


# --8<-- [end:leaves]
if __name__ == "__main__":
    main()
