"""Defect 10: `torch.save` straight onto the final name; the newest wins."""

from pathlib import Path
from typing import Any

import torch
from torch import nn


def save_checkpoint(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, step: int
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": step,
    }
    torch.save(state, folder / f"ckpt-{step:06d}.pt")


def latest(folder: Path) -> Path | None:
    """The newest checkpoint: names sort by step."""
    return max(folder.glob("ckpt-*.pt"), default=None)


def load_latest(folder: Path) -> dict[str, Any] | None:
    path = latest(folder)
    return torch.load(path, map_location="cpu") if path else None
