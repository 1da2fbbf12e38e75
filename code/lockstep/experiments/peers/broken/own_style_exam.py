"""How the exam launches the trainer in its own style, with the variant that
LOCKSTEP_FAULT names."""

import json
import os
from dataclasses import asdict
from pathlib import Path

from lockstep.exam.adapter import Launch

VARIANT = os.environ.get("LOCKSTEP_FAULT", "")
name = f"in its own style, {VARIANT or 'sound'}"


def command(launch: Launch) -> list[object]:
    """One process, which forks the ranks; settings as JSON."""
    script = Path(__file__).with_name("own_style.py")
    settings = json.dumps(asdict(launch), default=str)
    return [launch.python, script, settings]


def checkpoints(run_dir: Path) -> list[Path]:
    """Names sort by step."""
    return sorted((run_dir / "saved").glob("[0-9]*"))
