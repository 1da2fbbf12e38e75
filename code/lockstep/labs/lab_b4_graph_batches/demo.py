"""Lab B4: what a batch holds, what its check finds, and what two ranks average.

torchrun --standalone --nproc-per-node=2 -m <this module> FILE
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from lockstep.labs.demo import show

SIZES = 4, 1, 3


def cycle(size: int) -> tuple[Tensor, Tensor]:
    """Atoms 0, 1, … in a ring; one atom has no bond."""
    after = torch.arange(size)
    bonds = torch.stack([after, after.roll(-1)])[:, : size if size > 1 else 0]
    return after[:, None].float(), torch.cat([bonds, bonds.flip(0)], 1)


def main(answer: Any) -> None:
    """Print it on rank 0."""
    graphs = [answer.Graph(*cycle(size)) for size in SIZES]

    def predict(some: Sequence[Any], offset: bool = True) -> Tensor:
        batch = answer.union(some, 1)
        if not offset:
            own = torch.cat([one.bonds for one in some], 1)
            batch = batch._replace(bonds=own)
        heard = answer.messages(batch.atoms, batch)
        found: Tensor = answer.readout(heard, batch, "sum")[:, 0]
        return found

    found = {
        "offset": answer.company(predict, graphs),
        "no offset": answer.company(lambda g: predict(g, False), graphs),
    }
    # Rank 0 has ten atoms with an error of 1, rank 1 two with an error of 4.
    errors = torch.full((2,), 4.0) if dist.get_rank() else torch.ones(10)
    means = torch.stack([errors.mean(), answer.atom_mean(errors)])
    dist.all_reduce(means)
    if dist.get_rank() == 0:
        batch = answer.union(graphs, 1)
        print("atoms of each graph:", *batch.counts.tolist())
        print("bonds begin at:", *batch.bonds[0].tolist())
        for name, which in found.items():
            print(f"company, {name}:", which)
        mean, right = (means / dist.get_world_size()).tolist()
        print(f"mean of two means: {mean}, of all atoms: {right}")


if __name__ == "__main__":
    show(main)
