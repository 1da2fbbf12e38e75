"""Does a sum over ranks depend on where in the buffer it is?

torchrun --nproc-per-node=3 -m lockstep.probes.additions
"""

import torch
import torch.distributed as dist

from lockstep.trainer.extensions.launcher import leave


# --8<-- [start:unlike]
def unlike(numbers: int = 1000, places: int = 12) -> int:
    """Every rank puts the same `numbers` at twelve places of one buffer. How
    many have a sum over the ranks that is not the same at all places?"""
    torch.manual_seed(dist.get_rank())
    buffer = torch.rand(numbers).repeat(places)
    dist.all_reduce(buffer)
    sums = buffer.view(places, numbers)
    return int((sums != sums[0]).any(0).sum())


# --8<-- [end:unlike]
if __name__ == "__main__":
    dist.init_process_group("gloo")
    found, ranks = unlike(), dist.get_world_size()
    if dist.get_rank() == 0:
        print(f"{ranks} ranks, {found} of 1000 sums depend on their place")
    leave(0)  # a rank that finalises after a collective may abort
