"""Weights by version, and checkpoints: published whole, or not there."""

import json
import shutil
from pathlib import Path
from typing import Any

from lockstep.trainer.checkpoint import (
    Manifest,
    fresh,
    packed,
    published,
    seal,
    sync,
    verify,
    write_file,
)
from lockstep.trainer.telemetry import phase

KEEP = 2  # the newest, and the one that somebody may be reading


# --8<-- [start:publish]
def publish(
    root: Path, step: int, files: dict[str, Any], **says: Any
) -> Manifest:
    """`files`, by name, as step `step` below `root`. When it returns they are
    on the disk; killed before, it leaves no such step."""
    fresh(tmp := root / "tmp")
    wrote = {
        name: write_file(tmp / name, packed(value, name))
        for name, value in files.items()
    }
    manifest = {"step": step, **says, "files": wrote}
    manifest["sha256"] = seal(manifest)
    with phase("manifest"):
        write_file(tmp / "manifest.json", json.dumps(manifest).encode())
        sync(tmp)
    with phase("rename"):
        tmp.rename(name_of(root, step))
        sync(root)
    for old in published(root)[KEEP:]:
        shutil.rmtree(old.rename(tmp))
    return manifest


# --8<-- [end:publish]
def name_of(root: Path, step: int) -> Path:
    """Return the folder of one step."""
    return root / f"step-{step:08d}"


def load_verified(root: Path, step: int, file: str) -> Path:
    """Where `file` of that step is. ValueError, if it is not as published."""
    verify(folder := name_of(root, step))
    return folder / file
