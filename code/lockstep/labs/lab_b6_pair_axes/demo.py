"""Lab B6: what a rank holds, sends and keeps in an update of pairs.

torchrun --standalone --nproc-per-node=2 -m <this module> FILE
"""

from typing import Any

import torch
import torch.distributed as dist

from lockstep.instruments.traffic import Traffic
from lockstep.labs.demo import show

RESIDUES, CHANNELS = 16, 4


def main(answer: Any) -> None:
    """One outgoing and one incoming multiplication, split by rows."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    alone = [dist.new_group([one]) for one in range(ranks)][rank]
    mesh = answer.Mesh(down=dist.group.WORLD, across=alone)
    z = torch.ones(RESIDUES, RESIDUES, CHANNELS)
    tile = answer.part(z, mesh).requires_grad_()
    if rank == 0:
        print(f"z has {z.nbytes} bytes, a tile {tile.nbytes}")
    for name in ("outgoing", "incoming"):
        act = getattr(answer, name)
        with Traffic() as forward:
            loss = act(tile * 1, tile * 1, mesh).sum()
        with Traffic() as backward:
            loss.backward()
        if rank == 0:
            for way, traffic in (("forward", forward), ("backward", backward)):
                calls = [
                    f"{call.op} {call.bytes}"
                    for call in traffic.calls
                    if call.ranks > 1
                ]
                print(f"{name}, {way}:", ", ".join(calls))


if __name__ == "__main__":
    show(main)
