"""In float64, with the tolerance that one had for float32."""

from unittest.mock import patch

from torch import Tensor, nn

from lockstep.exercises.labs.lab_b5_equivariance import sound
from lockstep.exercises.labs.lab_b5_equivariance.solution import *

FAILS = {"small leaks"}


def breaks(layer: nn.Module, h: Tensor, x: Tensor, seed: int = 0) -> set[str]:
    """It passes what float32 would have hidden."""
    with patch.object(sound, "COUNTS", 1e-4):
        return sound.breaks(layer, h, x, seed)
