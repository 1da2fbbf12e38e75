"""Defect 13: metadata are saved with a checkpoint, and never compared."""

from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import nn


@dataclass(frozen=True)
class TrainConfig:
    seed: int = 0
    learning_rate: float = 3e-3
    global_batch_size: int = 64
    max_steps: int = 12
    precision: str = "fp32"
    dropout: float = 0.1


def save_checkpoint(
    path: Path, model: nn.Module, cfg: TrainConfig, step: int
) -> None:
    state = {
        "model": model.state_dict(),
        "step": step,
        "metadata": {"config": asdict(cfg), "torch": str(torch.__version__)},
    }
    torch.save(state, path)


def load_checkpoint(path: Path, model: nn.Module, cfg: TrainConfig) -> int:
    """Restore `model` for a run with `cfg`; the step to go on from."""
    state = torch.load(path, map_location="cpu")
    model.load_state_dict(state["model"])
    return int(state["step"])
