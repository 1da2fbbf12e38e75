"""The same, with what mending.py adds."""

import runpy
from pathlib import Path

from lockstep.exam.adapter import Launch

style = runpy.run_path(str(Path(__file__).with_name("adapter.py")))
name = "nanoGPT's style, mended"
lacks = style["lacks"]


def command(launch: Launch) -> list[object]:
    """With two settings more."""
    timeout = f"--timeout_seconds={launch.timeout_seconds}"
    return [*style["command"](launch), "--mended=True", timeout]


def checkpoints(run_dir: Path) -> list[Path]:
    """The one before, and the newest."""
    names = ("ckpt.old", "ckpt.pt")
    return [run_dir / name for name in names if (run_dir / name).exists()]
