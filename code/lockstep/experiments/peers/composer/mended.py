"""Composer with what the user's side can mend: options and two callbacks."""

import runpy
from pathlib import Path

from lockstep.exam.adapter import Launch

HERE = Path(__file__).parent
plain = runpy.run_path(str(HERE / "adapter.py"))
name = "Composer, mended"
lacks, number = plain["lacks"], plain["number"]


def command(launch: Launch) -> list[object]:
    """By Composer's own launcher, which passes on a SIGTERM."""
    words = plain["command"](launch)
    words.insert(words.index(HERE / "train.py") + 1, "--mended")
    return ["env", "TORCH_FORCE_WEIGHTS_ONLY_LOAD=1", *words]


def checkpoints(run_dir: Path) -> list[Path]:
    """By the batch in their names."""
    found = (run_dir / "checkpoints").glob("*/ep*-ba*-rank0.pt.gz")
    return sorted(found, key=lambda path: int(number(path.name)))
