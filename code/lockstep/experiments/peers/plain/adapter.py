"""The exam's adapter for plain PyTorch with torchdata and DCP."""

from pathlib import Path

from lockstep.exam.adapter import Launch
from lockstep.experiments.peers.launching import options, torchrun

name = "Plain PyTorch: torchdata and DCP"
lacks = {"ema": "the script keeps no averaged weights"}


def command(launch: Launch) -> list[object]:
    """By torchrun."""
    return [
        *torchrun(launch), Path(__file__).with_name("train.py"),
        *options(launch),
    ]  # fmt: skip


def checkpoints(run_dir: Path) -> list[Path]:
    """DCP writes `.metadata` last."""
    return sorted(path.parent for path in run_dir.glob("step-*/.metadata"))
