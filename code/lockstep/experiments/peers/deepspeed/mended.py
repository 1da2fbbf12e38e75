"""DeepSpeed with what the user's side can mend, by its client state."""

import runpy
from pathlib import Path

from lockstep.exam.adapter import Launch
from lockstep.experiments.peers.launching import torchrun

theirs = runpy.run_path(str(Path(__file__).with_name("adapter.py")))
name = "DeepSpeed, mended"
lacks, checkpoints = theirs["lacks"], theirs["checkpoints"]


def command(launch: Launch) -> list[object]:
    """By torchrun, which gives the ranks time to save at a SIGTERM."""
    return [
        "env", "DS_ACCELERATOR=cpu", "TORCH_FORCE_WEIGHTS_ONLY_LOAD=1",
        *torchrun(launch), *theirs["script"](launch), "--mended",
    ]  # fmt: skip
