"""Syncs while the bytes are in Python's buffer: nothing is on the disk yet."""

import hashlib
import os
from pathlib import Path
from typing import Any
from unittest.mock import patch

from lockstep.exercises.labs.lab_10_checkpoint.solution import *
from lockstep.parallel import resume

FAILS = {"publish"}


def write_bytes(file: Path, data: bytes) -> dict[str, Any]:
    """Some of it is on the disk."""
    with file.open("wb") as out:
        out.write(data)
        os.fsync(out.fileno())
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def publish(root: Path, step: int, parts: dict[str, Any]) -> None:
    """Of files that are not on the disk."""
    with patch.object(resume, "write_bytes", write_bytes):
        resume.publish(root, step, parts)
