"""Composer with what the user's side can mend: options and two callbacks."""

import re
from pathlib import Path

from lockstep.exam.adapter import Launch

name = "Composer, mended"
lacks = {
    "ema": "its script keeps no averaged weights",
    "scaler": "amp_fp16 works on GPUs only",
}


def command(launch: Launch) -> list[object]:
    """By Composer's own launcher, which passes on a SIGTERM."""
    stop = ["--stop-at", launch.stop_at] if launch.stop_at else []
    return [
        "env", "TORCH_FORCE_WEIGHTS_ONLY_LOAD=1",
        launch.python, "-m", "composer.cli", "--nproc", launch.ranks,
        Path(__file__).with_name("train.py"), "--mended",
        "--run-dir", launch.run_dir,
        "--steps", launch.steps, *stop,
        "--save-every", launch.save_every,
        "--batch", launch.global_batch,
        "--workers", launch.workers,
        "--seed", launch.seed,
        "--timeout", launch.timeout_seconds,
    ]  # fmt: skip


def checkpoints(run_dir: Path) -> list[Path]:
    """By the batch in their names."""
    found = (run_dir / "checkpoints").glob("*/ep*-ba*-rank0.pt.gz")
    return sorted(found, key=lambda path: int(number(path.name)))


def number(file_name: str) -> str:
    """How many batches a checkpoint has seen."""
    return re.findall(r"-ba(\d+)-", file_name)[0]
