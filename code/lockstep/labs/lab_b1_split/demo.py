"""Lab B1: what ranks agree on, and what a split gives away.

torchrun --standalone --nproc-per-node=2 -m <this module> FILE
"""

from typing import Any

import torch
import torch.distributed as dist

from lockstep.labs.demo import show

SHARES = {"train": 0.8, "test": 0.2}
FAMILIES, EACH, BITS, LEAST = 100, 20, 256, 0.6


def main(answer: Any) -> None:
    """Of 100 scaffolds with 20 molecules each, dealt to the ranks."""
    rank, world = dist.get_rank(), dist.get_world_size()
    draw = torch.Generator().manual_seed(0)
    core = torch.rand(FAMILIES, 1, BITS, generator=draw) < 0.15
    tail = torch.rand(FAMILIES, EACH, BITS, generator=draw) < 0.03
    bits = (core | tail).flatten(0, 1)[rank::world]
    rows = range(rank, FAMILIES * EACH, world)
    scaffolds = [f"scaffold {row // EACH}" for row in rows]
    keys = [f"molecule {row}" for row in rows]

    def agree(sides: list[bool]) -> bool:
        """Whether ranks hold the same groups back."""
        found: list[list[bool]] = [[]] * world
        dist.all_gather_object(found, sides)
        return all(one == found[0] for one in found)

    names = [f"scaffold {number}" for number in range(FAMILIES)]
    ways = {
        "hash()": [hash(one) % 5 == 0 for one in names],
        "side": [answer.side(one, 0, SHARES, {}) == "test" for one in names],
    }
    for way, sides in ways.items():
        same = agree(sides)
        if rank == 0:
            print(f"{way}: ranks agree: {same}")
    for way, given in {"row": keys, "scaffold": scaffolds}.items():
        parts = answer.split(keys, given, 0, SHARES, {})
        test = torch.tensor([part == "test" for part in parts])
        near = answer.nearest(bits[test], bits[~test])
        found = answer.audit(near, LEAST)
        if rank == 0:
            print(
                f"by {way}: {found['molecules']:.0f} test molecules,"
                f" {found['near']:.0%} with a neighbor, median"
                f" {found['median']:.2f}"
            )


if __name__ == "__main__":
    show(main)
