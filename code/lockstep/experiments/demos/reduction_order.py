"""Does a sum over ranks depend on where in the buffer it is?"""

import torch
import torch.distributed as dist

from lockstep.instruments.forked import in_a_group


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
def main() -> None:
    """On two, three and four ranks."""
    for ranks in (2, 3, 4):
        found, *_ = in_a_group(ranks, unlike)
        print(f"{ranks} ranks, {found} of 1000 sums depend on their place")


if __name__ == "__main__":
    main()
