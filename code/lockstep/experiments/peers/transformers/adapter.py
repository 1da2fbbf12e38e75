"""The exam's adapter for the Trainer of Hugging Face Transformers."""

from pathlib import Path

import torch

from lockstep.exam.adapter import Launch
from lockstep.experiments.peers.launching import by_numbers, options, torchrun

name = "Transformers Trainer"
lacks = {
    "ema": "it keeps no averaged weights",
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
    """By their steps."""
    return by_numbers(run_dir.glob("checkpoint-*"))
