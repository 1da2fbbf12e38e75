"""The exam's adapter for Lightning's Trainer."""

from dataclasses import replace
from pathlib import Path

from lockstep.exam.adapter import Launch
from lockstep.experiments.peers.launching import by_numbers, options, torchrun

name = "Lightning Trainer"


def command(launch: Launch) -> list[object]:
    """By torchrun, which the documentation recommends for fault tolerance."""
    if launch.stop_at and launch.stop_at % launch.save_every:
        # max_steps ends a run, and saves nothing
        launch = replace(launch, save_every=launch.stop_at)
    return [
        *torchrun(launch), Path(__file__).with_name("train.py"),
        *options(launch),
    ]  # fmt: skip


def checkpoints(run_dir: Path) -> list[Path]:
    """Without `last.ckpt`, a link to the newest."""
    return by_numbers((run_dir / "checkpoints").glob("step=*.ckpt"))
