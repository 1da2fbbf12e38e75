"""Lightning's Trainer, with what a user has to add."""

import runpy
from pathlib import Path

theirs = runpy.run_path(str(Path(__file__).with_name("adapter.py")))
name = "Lightning Trainer, mended"
checkpoints = theirs["checkpoints"]


def command(launch: object) -> list[object]:
    """The same script."""
    return [*theirs["command"](launch), "--mended"]
