"""What the faulty copies train: a small set, and a small model."""

import numpy as np
import torch
from torch import Tensor, nn

FEATURES, CLASSES = 32, 4


def toy(n: int = 256) -> tuple[Tensor, Tensor]:
    """Features (n, 32) and the labels (n,) that a linear teacher gives them."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, FEATURES)).astype(np.float32)
    y = (x @ rng.normal(size=(FEATURES, CLASSES))).argmax(axis=1)
    return torch.tensor(x), torch.tensor(y)


def small_model(dropout: float = 0.0) -> nn.Module:
    """Return an MLP, (m, 32) to (m, 4), with equal weights in every process."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(FEATURES, 48),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(48, CLASSES),
    )
