"""The check centers what it is given, and what it has moved as well."""

from torch import Tensor, nn

from lockstep.exercises.labs.lab_b5_equivariance.solution import *
from lockstep.exercises.labs.lab_b5_equivariance.sound import breaks as sound

FAILS = {"translation"}


class Centered(nn.Module):
    """The layer, behind a data pipeline."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """About the mean, and back."""
        mean = x.mean(0)
        h, moved = self.layer(h, x - mean)
        return h, moved + mean


def breaks(layer: nn.Module, h: Tensor, x: Tensor, seed: int = 0) -> set[str]:
    """No layer is tied to the origin there."""
    return sound(Centered(layer), h, x, seed)
