"""The exam's adapter for Ray Train with what its user has to add."""

import runpy
from pathlib import Path

from lockstep.exam.adapter import Launch

plain = runpy.run_path(str(Path(__file__).with_name("adapter.py")))
name = "Ray Train, mended"
lacks, checkpoints = plain["lacks"], plain["checkpoints"]


def command(launch: Launch) -> list[object]:
    """As before, with a flag."""
    return [*plain["command"](launch), "--mended"]
