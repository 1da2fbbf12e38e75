"""The exam's adapter for the Trainer of Hugging Face Transformers."""

from pathlib import Path

import torch

from lockstep.exam.adapter import Launch

name = "Transformers Trainer"
lacks = {
    "ema": "it keeps no averaged weights",
}

if not torch.cuda.is_available():
    lacks["scaler"] = "it makes no gradient scaler on a CPU"


def command(launch: Launch) -> list[object]:
    """By torchrun."""
    stop = ["--stop-at", launch.stop_at] if launch.stop_at else []
    return [
        launch.python, "-m", "torch.distributed.run", "--standalone",
        "--nproc-per-node", launch.ranks,
        Path(__file__).with_name("train.py"),
        "--run-dir", launch.run_dir,
        "--steps", launch.steps, *stop,
        "--save-every", launch.save_every,
        "--batch", launch.global_batch // launch.ranks,
        "--workers", launch.workers,
        "--precision", launch.precision,
        "--seed", launch.seed,
        "--timeout", launch.timeout_seconds,
    ]  # fmt: skip


def checkpoints(run_dir: Path) -> list[Path]:
    """By their steps."""
    found = run_dir.glob("checkpoint-*")
    return sorted(found, key=lambda path: int(path.name.split("-")[1]))
