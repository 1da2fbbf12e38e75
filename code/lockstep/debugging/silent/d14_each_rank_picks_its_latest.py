"""Defect 14: each rank looks for the latest checkpoint by itself."""

import re
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import torch.distributed as dist
from torch import nn

from lockstep.debugging.silent.toy import small_model
from lockstep.instruments.forked import in_a_group


# --8<-- [start:copy]
def step_of(path: Path) -> int:
    """Return the step in a checkpoint's name."""
    found = re.search(r"step-(\d+)", path.name)
    return int(found.group(1)) if found else -1


def restore_latest(folder: Path, model: nn.Module) -> int:
    """Load the newest checkpoint; the step to go on from, 0 if there is none.

    All ranks call it, and wait for each other before they train.
    """
    step = 0
    if paths := sorted(folder.glob("step-*"), key=step_of):
        state = torch.load(paths[-1], map_location="cpu")
        model.load_state_dict(state["model"])
        step = int(state["step"])
    dist.barrier()
    return step


# --8<-- [end:copy]
def save(folder: Path, *steps: int) -> None:
    """Write the checkpoints that a trainer has left in `folder`."""
    folder.mkdir(exist_ok=True)
    for step in steps:
        state = {"model": small_model().state_dict(), "step": step}
        torch.save(state, folder / f"step-{step}.pt")


def restore_from_own_disk(root: Path) -> int:
    """Each rank looks where its node keeps checkpoints."""
    return restore_latest(root / f"node-{dist.get_rank()}", small_model())


def demonstrate() -> None:
    """Two nodes that keep checkpoints; one died before it had written the
    newest."""
    with TemporaryDirectory() as name:
        root = Path(name)
        save(root / "node-0", 4, 8)
        save(root / "node-1", 4)
        for rank, step in enumerate(in_a_group(2, restore_from_own_disk, root)):
            print(f"rank {rank} goes on from step {step}")
