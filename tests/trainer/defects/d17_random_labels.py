"""Defect 17: the labels are random, so there is nothing to learn."""

import torch
from torch import Tensor
from torch.utils.data import Dataset


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
