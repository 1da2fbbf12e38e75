"""The exam's adapter for torchft."""

from pathlib import Path

from lockstep.exam.adapter import Launch
from lockstep.experiments.peers.launching import options

name = "torchft"
users = (
    "torchft writes no checkpoints to disk: its train_ddp.py leaves them to"
    " the user, and this would examine the script"
)
lacks = {
    "ema": "it keeps no averaged weights",
    "world-size": "its sampler is documented to be lossy when the number of"
    " replica groups is not the one that it was made for",
    **dict.fromkeys(
        (
            "kill-during-save", "full-disk", "truncated", "missing-file",
            "flipped-bit", "wrong-run", "pickle", "sigterm",
        ),
        users,
    ),
}  # fmt: skip


def command(launch: Launch) -> list[object]:
    """The script starts a lighthouse and torchrun."""
    script = Path(__file__).with_name("train.py")
    return [launch.python, script, *options(launch)]


def checkpoints(run_dir: Path) -> list[Path]:
    """Those that all ranks have written to the end."""
    return [path.parent for path in sorted(run_dir.glob("step-*/whole"))]
