"""The exam's adapter for a loop on Lightning Fabric."""

from pathlib import Path

from lockstep.exam.adapter import Launch
from lockstep.experiments.peers.launching import options, torchrun

name = "Lightning Fabric"
lacks = {
    "ema": "it keeps no averaged weights",
    "sigterm": "it handles no signals: the loop is the user's",
}


def command(launch: Launch) -> list[object]:
    """By torchrun, one of the documented launchers."""
    return [
        *torchrun(launch), Path(__file__).with_name("train.py"),
        *options(launch),
    ]  # fmt: skip


def checkpoints(run_dir: Path) -> list[Path]:
    """Names sort by step."""
    return sorted((run_dir / "checkpoints").glob("step-*.ckpt"))
