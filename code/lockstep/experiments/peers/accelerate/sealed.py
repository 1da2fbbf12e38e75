"""Checkpoints that are whole or not there: written aside, sealed, renamed."""

import json
import shutil
from pathlib import Path

from accelerate import Accelerator

from lockstep.experiments.peers.repairs import digests

SEAL = "seal.json"


def save(accelerator: Accelerator, root: Path, step: int, run: str) -> None:
    """Save the state after `step` of `run`, and keep the one before."""
    part, whole = root / "part", root / f"step_{step}"
    if accelerator.is_main_process:
        shutil.rmtree(part, ignore_errors=True)
    accelerator.wait_for_everyone()
    accelerator.save_state(str(part))
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        seal = {"step": step, "run": run, "files": digests(part, SEAL)}
        (part / SEAL).write_text(json.dumps(seal))
        shutil.rmtree(whole, ignore_errors=True)
        part.rename(whole)
        for _, old in found(root)[2:]:
            shutil.rmtree(old)
    accelerator.wait_for_everyone()


def found(root: Path) -> list[tuple[int, Path]]:
    """All that were renamed, the newest first."""
    paths = root.glob("step_*")
    return sorted(((int(p.name[5:]), p) for p in paths), reverse=True)


def load(accelerator: Accelerator, root: Path, run: str) -> int:
    """Load the newest whole state of `run`; after which step it was saved, or
    0 if there is none."""
    for step, path in found(root):
        try:
            seal = json.loads((path / SEAL).read_text())
        except (OSError, ValueError):
            continue
        if seal["run"] != run:
            raise SystemExit(f"{path} belongs to another run")
        if digests(path, SEAL) == seal["files"]:
            accelerator.load_state(str(path))
            return step
        accelerator.print(f"{path} is damaged; trying the one before")
    if found(root):
        raise SystemExit(f"no checkpoint in {root} is whole")
    return 0
