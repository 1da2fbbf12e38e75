"""Defect 10: `torch.save` straight onto the final name; the newest wins."""

import signal
import sys
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

from lockstep.debugging.bugs.rig import die_mid_write


# --8<-- [start:copy]
def save_checkpoint(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, step: int
) -> None:
    """One file for each step that is saved."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": step,
    }
    torch.save(state, folder / f"ckpt-{step:06d}.pt")


def latest(folder: Path) -> Path | None:
    """Return the newest checkpoint: names sort by step."""
    return max(folder.glob("ckpt-*.pt"), default=None)


def load_latest(folder: Path) -> dict[str, Any] | None:
    """Load the newest checkpoint's state; None before the first."""
    path = latest(folder)
    return torch.load(path, map_location="cpu") if path else None


# --8<-- [end:copy]
LIMIT = 64 * 1024  # bytes: less than the model's weights


def run(folder: Path) -> None:
    """Save at step 5; die in the middle of saving at step 10."""
    model = nn.Linear(160, 160)
    optimizer = torch.optim.AdamW(model.parameters())
    save_checkpoint(folder, model, optimizer, step=5)
    die_mid_write(LIMIT)
    save_checkpoint(folder, model, optimizer, step=10)


def demonstrate() -> None:
    """Print what a kill leaves behind, and what the next launch does."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        killed = get_context("fork").Process(target=run, args=[folder])
        killed.start()
        killed.join()
        died = signal.Signals(-(killed.exitcode or 0)).name
        print(f"killed by {died} while it saved step 10")
        print("on the disk:", *sorted(path.name for path in folder.iterdir()))
        print("latest:", getattr(latest(folder), "name", None))
        try:
            load_latest(folder)
        except (RuntimeError, OSError) as error:
            print("restore: fails")
            print(error, file=sys.stderr)  # the words depend on the release
