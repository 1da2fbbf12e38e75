"""Defect 3: a checkpoint with NumPy's RNG tuple, which no `torch.load` takes
since `weights_only=True` is its default (torch 2.6)."""

import random
from pathlib import Path
from pickle import UnpicklingError
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import nn

from lockstep.debugging.silent.toy import small_model


# --8<-- [start:copy]
def save_checkpoint(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, step: int
) -> None:
    """All that a restart needs, in one file."""
    rng = {
        "python": random.getstate(),
        "numpy": np.random.get_state(),
        "torch": torch.get_rng_state(),
    }
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": step,
        "rng": rng,
    }
    torch.save(state, path)


def load_checkpoint(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer
) -> int:
    """Restore what `save_checkpoint` wrote; the step to go on from."""
    state = torch.load(path, map_location="cpu")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    random.setstate(state["rng"]["python"])
    np.random.set_state(state["rng"]["numpy"])
    torch.set_rng_state(state["rng"]["torch"])
    return int(state["step"])


# --8<-- [end:copy]
def demonstrate() -> None:
    """Save, and try the restore that had never run."""
    model = small_model()
    optimizer = torch.optim.AdamW(model.parameters())
    with TemporaryDirectory() as folder:
        path = Path(folder) / "ckpt.pt"
        save_checkpoint(path, model, optimizer, step=400)
        print("saved at step 400")
        try:
            load_checkpoint(path, model, optimizer)
        except UnpicklingError as error:
            said = str(error).partition(".")[0]
            print(f"restore: {type(error).__name__}: {said}")
