"""Loads with the whole of pickle: what a file says is run."""

from pathlib import Path
from typing import Any

import torch

from lockstep.exercises.labs.lab_10_checkpoint.solution import *

FAILS = {"safe load"}


def load(folder: Path, name: str) -> Any:
    """Whatever the pickle makes."""
    return torch.load(folder / f"{name}.pt", "cpu", weights_only=False)
