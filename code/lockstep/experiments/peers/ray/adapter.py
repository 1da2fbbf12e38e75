"""The exam's adapter for Ray Train."""

import json
from pathlib import Path

from lockstep.exam.adapter import Launch

name = "Ray Train"
lacks = {"ema": "it keeps no averaged weights"}


def command(launch: Launch) -> list[object]:
    """The driver, which starts a local cluster of its own."""
    return [
        launch.python, Path(__file__).with_name("train.py"),
        "--run-dir", launch.run_dir,
        "--ranks", launch.ranks,
        "--steps", launch.steps,
        "--stop-at", launch.stop_at or 0,
        "--save-every", launch.save_every,
        "--global-batch", launch.global_batch,
        "--workers", launch.workers,
        "--precision", launch.precision,
        "--seed", launch.seed,
        "--timeout", launch.timeout_seconds,
    ]  # fmt: skip


def checkpoints(run_dir: Path) -> list[Path]:
    """Those that were reported: Ray Train keeps a list."""
    folder = run_dir / "run"
    snapshot = folder / "checkpoint_manager_snapshot.json"
    if not snapshot.exists():
        return []
    results = json.loads(snapshot.read_text())["checkpoint_results"]
    return [folder / result["checkpoint_dir_name"] for result in results]
