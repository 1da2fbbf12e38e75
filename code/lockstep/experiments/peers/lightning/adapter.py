"""The exam's adapter for Lightning's Trainer."""

from pathlib import Path

from lockstep.exam.adapter import Launch

name = "Lightning Trainer"


def command(launch: Launch) -> list[object]:
    """By torchrun, which the documentation recommends for fault tolerance."""
    every = launch.save_every
    if launch.stop_at and launch.stop_at % every:
        every = launch.stop_at  # max_steps ends a run, and saves nothing
    return [
        launch.python, "-m", "torch.distributed.run", "--standalone",
        "--nproc-per-node", launch.ranks,
        Path(__file__).with_name("train.py"),
        "--run-dir", launch.run_dir,
        "--ranks", launch.ranks,
        "--steps", launch.steps,
        "--stop-at", launch.stop_at or 0,
        "--save-every", every,
        "--global-batch", launch.global_batch,
        "--workers", launch.workers,
        "--precision", launch.precision,
        "--seed", launch.seed,
        "--timeout-seconds", launch.timeout_seconds,
    ]  # fmt: skip


def checkpoints(run_dir: Path) -> list[Path]:
    """Without `last.ckpt`, a link to the newest."""
    found = (run_dir / "checkpoints").glob("step=*.ckpt")
    return sorted(found, key=lambda path: int(path.stem.split("=")[1]))
