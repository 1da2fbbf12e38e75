"""The exam's adapter for the Trainer with what a user can mend."""

import runpy
from pathlib import Path

from lockstep.exam.adapter import Launch

HERE = Path(__file__).parent
plain = runpy.run_path(str(HERE / "adapter.py"))
name = "Transformers Trainer, mended"
lacks = plain["lacks"]


def command(launch: Launch) -> list[object]:
    """The same, with the mended script."""
    words = plain["command"](launch)
    words[words.index(HERE / "train.py")] = HERE / "mended_train.py"
    return words


def checkpoints(run_dir: Path) -> list[Path]:
    """Those that are sealed, by their steps."""
    found = [path.parent for path in run_dir.glob("checkpoint-*/seal.json")]
    return sorted(found, key=lambda path: int(path.name.split("-")[1]))
