"""What a packed row leaks: `python -m lockstep.experiments.studies.packing`.

A layer of attention with random weights reads SMILES alone, and end to end in
one row. What it makes of the first three is compared: the largest difference,
relative to the largest value.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from lockstep.bio.batches import attends, lay
from lockstep.bio.datasets import chembl

WIDTH, BUDGET, COMPARED = 64, 512, 3


class Reader(nn.Module):
    """One layer of attention over tokens.

    Args:
        rotary: turn queries and keys by the position (RoPE), in place of adding
            a vector for it.
    """

    def __init__(self, rotary: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tokens = nn.Embedding(128, WIDTH)
        self.places = None if rotary else nn.Embedding(BUDGET, WIDTH)
        self.project = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(
        self, tokens: Tensor, positions: Tensor, mask: Tensor
    ) -> Tensor:
        """Float32 [tokens, WIDTH] of int64 [tokens] twice, and the mask."""
        x = self.tokens(tokens)
        if self.places is not None:
            x = x + self.places(positions)
        query, key, value = self.project(x).chunk(3, dim=-1)
        if self.places is None:
            query, key = (turned(one, positions) for one in (query, key))
        return scaled_dot_product_attention(
            query[None], key[None], value[None], mask[None]
        )[0]


def turned(x: Tensor, positions: Tensor) -> Tensor:
    """[tokens, WIDTH], pairs turned by angles that grow with the position."""
    speeds = 10_000 ** -torch.linspace(0, 1, x.shape[1] // 2)
    angles = positions[:, None] * speeds
    even, odd = x.chunk(2, dim=-1)
    sin, cos = angles.sin(), angles.cos()
    return torch.cat([even * cos - odd * sin, even * sin + odd * cos], dim=-1)


def sequences() -> list[Tensor]:
    """Some SMILES, each int64 [its length]."""
    found = chembl().smiles[: COMPARED + 2]
    return [torch.tensor([*one.encode()]) for one in found]


@torch.no_grad()
def difference(rotary: bool, masked: bool, reset: bool) -> float:
    """Of the packed row's output from that of each sequence alone."""
    model, given = Reader(rotary), sequences()
    row = lay(given, BUDGET)
    mask = attends(row.owners) if masked else torch.ones(BUDGET, BUDGET).bool()
    places = row.positions if reset else torch.arange(BUDGET)
    packed = model(row.tokens, places, mask)
    worst = 0.0
    for number, one in enumerate(given[:COMPARED]):
        n = len(one)
        alone = model(one, torch.arange(n), torch.ones(n, n).bool())
        apart = (packed[row.owners == number] - alone).abs().max()
        worst = max(worst, float(apart / alone.abs().max()))
    return worst


def main() -> None:
    """With and without the mask, positions from 0 and running on."""
    torch.set_num_threads(1)
    print("mask  positions  learned   rotary")
    for masked in (True, False):
        for reset in (True, False):
            print("own " if masked else "none", end="  ")
            print("from 0 " if reset else "run on ", end="")
            for rotary in (False, True):
                apart = difference(rotary, masked, reset)
                same = apart < 1e-5  # rounding, which differs by machine
                print(f"{'same' if same else f'{apart:.1f}':>9}", end="")
            print()


if __name__ == "__main__":
    main()
