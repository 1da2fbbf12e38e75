"""The exam's adapter for Hugging Face Accelerate."""

from pathlib import Path

import torch

from lockstep.exam.adapter import Launch
from lockstep.experiments.peers.launching import by_numbers, options, torchrun

name = "Accelerate"
lacks = {
    "ema": "it keeps no averaged weights",
    "sigterm": "it has nothing for signals; the loop is its user's",
}

if not torch.cuda.is_available():
    lacks["scaler"] = "it makes no gradient scaler on a CPU"


def command(launch: Launch) -> list[object]:
    """By torchrun."""
    return [
        *torchrun(launch), Path(__file__).with_name("train.py"),
        *options(launch),
    ]  # fmt: skip


def checkpoints(run_dir: Path) -> list[Path]:
    """By their numbers."""
    return by_numbers((run_dir / "checkpoints").glob("checkpoint_*"))
