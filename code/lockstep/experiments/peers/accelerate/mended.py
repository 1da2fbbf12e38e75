"""The exam's adapter for Accelerate with what a user can mend."""

import runpy
from pathlib import Path

from lockstep.exam.adapter import Launch

HERE = Path(__file__).parent
plain = runpy.run_path(str(HERE / "adapter.py"))
name = "Accelerate, mended"
lacks = {k: why for k, why in plain["lacks"].items() if k != "sigterm"}


def command(launch: Launch) -> list[object]:
    """The same, with the mended script."""
    words = plain["command"](launch)
    words[words.index(HERE / "train.py")] = HERE / "mended_train.py"
    return words


def checkpoints(run_dir: Path) -> list[Path]:
    """By their steps."""
    found = (run_dir / "checkpoints").glob("step_*")
    return sorted(found, key=lambda path: int(path.name[5:]))
