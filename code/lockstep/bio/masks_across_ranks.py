"""Crops and masks that ranks draw, in three ways, and what comes of each.

    python -m lockstep.bio.masks_across_ranks

Two groups of two ranks: a group's ranks hold halves of the same proteins.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch

from .datasets import proteome
from .tokens import IGNORED, drawn, encode, masked, starts

SAMPLES, LENGTH, SEED = 512, 128, 0  # of a group; residues
WAYS = {
    "generator": "a seed a rank",
    "seed": "one seed",
    "sample": "by sample",
}


@cache
def proteins() -> list[np.ndarray]:
    """Return the proteins that are long enough, as ids."""
    whole = proteome().values()
    return [encode(one) for one in whole if len(one) >= LENGTH]


# --8<-- [start:draws]
def draws(way: str, group: int, rank: int) -> np.ndarray:
    """Draw the masks of the group's `rank`, 0 or 1, for its group's samples."""
    if way == "sample":
        ids = np.arange(SAMPLES) + group * SAMPLES
        return drawn(SEED, np.zeros_like(ids), ids, LENGTH)
    own = 2 * group + rank if way == "generator" else SEED
    generator = torch.Generator().manual_seed(own)
    wide = SAMPLES, 1 + 3 * LENGTH
    return torch.rand(wide, generator=generator, dtype=torch.float64).numpy()


# --8<-- [end:draws]
def found(way: str) -> dict[str, float]:
    """Shares: of crops whose halves fit, of labels whose answer can be read,
    of masks that the other group has too."""
    here = proteins()[:SAMPLES]
    one, two = (draws(way, 0, rank) for rank in range(2))
    other = draws(way, 1, 0)
    fit = starts(here, one, LENGTH) == starts(here, two, LENGTH)
    # The same crops, as if cut before: inputs of one rank, labels of the other.
    two = np.concatenate((one[:, :1], two[:, 1:]), 1)
    inputs, labels = masked(here, one, LENGTH)[0], masked(here, two, LENGTH)[1]
    asked = labels != IGNORED
    mine, theirs = (
        masked(here, drawn, LENGTH).labels != IGNORED for drawn in (one, other)
    )
    return {
        "fit": float(fit.mean()),
        "shown": float((inputs == labels)[asked].double().mean()),
        "twice": float((mine == theirs).all(1).double().mean()),
    }


def main() -> None:
    """Print a row for each way to draw."""
    rows = {WAYS[way]: found(way) for way in WAYS}
    names = next(iter(rows.values()))
    print(" " * 13 + "".join(f"{name:>8}" for name in names))
    for way, shares in rows.items():
        print(f"{way:13}" + "".join(f"{v:8.1%}" for v in shares.values()))


if __name__ == "__main__":
    main()
