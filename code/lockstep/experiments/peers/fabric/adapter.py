"""The exam's adapter for a loop on Lightning Fabric."""

from pathlib import Path

from lockstep.exam.adapter import Launch

name = "Lightning Fabric"
lacks = {
    "ema": "it keeps no averaged weights",
    "sigterm": "it handles no signals: the loop is the user's",
}


def command(launch: Launch) -> list[object]:
    """By torchrun, one of the documented launchers."""
    return [
        launch.python, "-m", "torch.distributed.run", "--standalone",
        "--nproc-per-node", launch.ranks,
        Path(__file__).with_name("train.py"),
        "--run-dir", launch.run_dir,
        "--ranks", launch.ranks,
        "--steps", launch.steps,
        "--stop-at", launch.stop_at or 0,
        "--save-every", launch.save_every,
        "--global-batch", launch.global_batch,
        "--workers", launch.workers,
        "--precision", launch.precision,
        "--seed", launch.seed,
        "--timeout-seconds", launch.timeout_seconds,
    ]  # fmt: skip


def checkpoints(run_dir: Path) -> list[Path]:
    """Names sort by step."""
    return sorted((run_dir / "checkpoints").glob("step-*.ckpt"))
