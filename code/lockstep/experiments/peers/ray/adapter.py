"""The exam's adapter for Ray Train."""

import json
from pathlib import Path

from lockstep.exam.adapter import Launch
from lockstep.experiments.peers.launching import options

name = "Ray Train"
lacks = {"ema": "it keeps no averaged weights"}


def command(launch: Launch) -> list[object]:
    """The driver, which starts a local cluster of its own."""
    script = Path(__file__).with_name("train.py")
    return [launch.python, script, *options(launch)]


def checkpoints(run_dir: Path) -> list[Path]:
    """Those that were reported: Ray Train keeps a list."""
    folder = run_dir / "run"
    snapshot = folder / "checkpoint_manager_snapshot.json"
    if not snapshot.exists():
        return []
    results = json.loads(snapshot.read_text())["checkpoint_results"]
    return [folder / result["checkpoint_dir_name"] for result in results]
