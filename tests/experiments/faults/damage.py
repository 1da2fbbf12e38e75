"""What may happen to a published checkpoint, and what a launch says of it."""

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import torch

from lockstep.trainer.checkpoint import (
    Manifest,
    published,
    seal,
    verify,
    write_file,
)
from lockstep.trainer.telemetry import Observer


class Log(Observer):
    """The events of this process."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []

    def event(self, record: dict[str, Any]) -> None:
        self.seen.append(record)


def belonging(manifest: Manifest) -> Manifest:
    """What a run says of itself, so that `manifest` is one of its own."""
    of_a_run = "config", "config_digest", "global_batch_size", "seed"
    of_its_data = "dataset_length", "dataset_fingerprint"
    return {name: manifest[name] for name in (*of_a_run, *of_its_data)}


def flip(path: Path, at: int, bit: int = 0) -> None:
    """One bit of one byte."""
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1 << bit
    path.write_bytes(raw)


def flip_middle(path: Path) -> None:
    flip(path, path.stat().st_size // 2)


def truncate(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def swap(one: Path, other: Path) -> None:
    """Each keeps its name and gets the other's content."""
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)


def take_older(path: Path) -> None:
    """The file of the checkpoint before: whole, and not of this step."""
    older = published(path.parent.parent)[1]
    path.write_bytes((older / path.name).read_bytes())


def link(path: Path) -> None:
    """A link to the same bytes, which somebody else may change later."""
    away = path.parents[2] / f"away-{path.name}"
    path.rename(away)
    path.symlink_to(away)


class Bomb:
    """Unpickled, it leaves a file behind."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.marker,)


def bomb(path: Path) -> Path:
    """A pickle with code in it, and the file that it would leave behind."""
    marker = path.parents[1] / "executed"
    torch.save(Bomb(marker), raw := BytesIO())
    path.write_bytes(raw.getvalue())
    return marker


def reseal(folder: Path, **changed: Any) -> None:
    """A manifest that fits what is there now, and says `changed`."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text()) | changed
    manifest.pop("sha256")
    manifest["files"] = {
        name: write_file(folder / name, (folder / name).read_bytes())
        for name in manifest["files"]
    }
    manifest["sha256"] = seal(manifest)
    path.write_text(json.dumps(manifest))
    verify(folder)
