"""The exam's adapter for MosaicML Composer with MosaicML Streaming."""

from pathlib import Path

from lockstep.exam.adapter import Launch
from lockstep.experiments.peers.launching import by_numbers, options

name = "Composer"
lacks = {
    "ema": "its script keeps no averaged weights",
    "scaler": "amp_fp16 works on GPUs only",
}


def command(launch: Launch) -> list[object]:
    """By Composer's own launcher."""
    return [
        launch.python, "-m", "composer.cli", "--nproc", launch.ranks,
        Path(__file__).with_name("train.py"), *options(launch),
    ]  # fmt: skip


def checkpoints(run_dir: Path) -> list[Path]:
    """By the epoch and batch in their names; `latest-rank0.pt` is a link."""
    return by_numbers((run_dir / "checkpoints").glob("ep*-ba*-rank0.pt"))
