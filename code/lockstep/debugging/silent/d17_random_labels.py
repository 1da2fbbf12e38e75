"""Defect 17: the labels are random, so there is nothing to learn."""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import Dataset

from lockstep.debugging.silent.toy import small_model, toy


# --8<-- [start:copy]
class ToyClassification(Dataset[tuple[Tensor, Tensor]]):
    """A synthetic classification set that needs no download."""

    def __init__(
        self, n: int = 5000, features: int = 32, classes: int = 4, seed: int = 0
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.x = torch.randn(n, features, generator=generator)
        self.y = torch.randint(classes, (n,), generator=generator)

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index], self.y[index]


# --8<-- [end:copy]
def held_out_loss(x: Tensor, y: Tensor, updates: bool) -> float:
    """Train on the first 4,000 samples, with or without updating the weights;
    the loss on the others."""
    model = small_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for own_x, own_y in zip(
        x[:4000].split(64), y[:4000].split(64), strict=True
    ):
        optimizer.zero_grad()
        F.cross_entropy(model(own_x), own_y).backward()
        if updates:
            optimizer.step()
    with torch.no_grad():
        return F.cross_entropy(model(x[4000:]), y[4000:]).item()


def demonstrate() -> None:
    """Train a correct trainer and one that never updates, on both kinds of
    labels."""
    random = ToyClassification()
    for kind, (x, y) in {
        "random": (random.x, random.y),
        "learnable": toy(5000),
    }.items():
        right, broken = (held_out_loss(x, y, u) for u in (True, False))
        print(
            f"{kind:>9} labels: right trainer {right:.2f}, broken {broken:.2f}"
        )
