"""The same, with what mending.py adds."""

import runpy
from pathlib import Path

from lockstep.exam.adapter import Launch

plain = runpy.run_path(str(Path(__file__).with_name("adapter.py")))
name = "Plain PyTorch, mended"
lacks = plain["lacks"]
checkpoints = plain["checkpoints"]


def command(launch: Launch) -> list[object]:
    """With one flag more."""
    return [*plain["command"](launch), "--mended"]
