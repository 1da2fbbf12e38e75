"""What a user can add to a loop in nanoGPT's style."""

import hashlib
import zipfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch


def timeout(config: dict[str, Any]) -> dict[str, timedelta]:
    """How long a collective may wait, if that is to be mended."""
    if not config["mended"]:
        return {}
    return {"timeout": timedelta(seconds=config["timeout_seconds"])}


def fingerprint(data: torch.Tensor) -> str:
    """By which a run's data are known again."""
    return hashlib.sha256(data.numpy().tobytes()).hexdigest()


def save(state: dict[str, Any], path: Path, data: torch.Tensor) -> None:
    """Beside the one before, which it then takes the place of at once."""
    part, old = path.with_suffix(".part"), path.with_suffix(".old")
    torch.save(state | {"data": fingerprint(data)}, part)
    if path.exists():
        old.unlink(missing_ok=True)
        old.hardlink_to(path)
    part.replace(path)


def load(
    path: Path, config: dict[str, Any], data: torch.Tensor
) -> dict[str, Any]:
    """The checkpoint, or the one before where it is damaged.

    torch.save writes a zip file with checksums, which torch.load does not
    look at.
    """
    for candidate in (path, path.with_suffix(".old")):
        try:
            with zipfile.ZipFile(candidate) as file:
                broken = file.testzip()
        except (zipfile.BadZipFile, FileNotFoundError) as error:
            broken = str(error)
        if broken:
            print(f"{candidate} is damaged: {broken}", flush=True)
            continue
        state = torch.load(candidate, map_location="cpu")
        was = state["config"]["seed"], state["data"]
        if was != (config["seed"], fingerprint(data)):
            raise ValueError(f"{candidate} is of another run")
        return state
    raise FileNotFoundError(f"no whole checkpoint at {path}")
