"""The exam's adapter for Hugging Face Accelerate."""

from pathlib import Path

import torch

from lockstep.exam.adapter import Launch

name = "Accelerate"
lacks = {
    "ema": "it keeps no averaged weights",
    "sigterm": "it has nothing for signals; the loop is its user's",
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
        "--global-batch", launch.global_batch,
        "--workers", launch.workers,
        "--precision", launch.precision,
        "--seed", launch.seed,
        "--timeout", launch.timeout_seconds,
    ]  # fmt: skip


def checkpoints(run_dir: Path) -> list[Path]:
    """By their numbers."""
    found = (run_dir / "checkpoints").glob("checkpoint_*")
    return sorted(found, key=lambda path: int(path.name.split("_")[1]))
