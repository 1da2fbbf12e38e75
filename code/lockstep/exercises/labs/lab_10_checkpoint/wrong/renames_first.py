"""Gives the directory its name, and writes the manifest into it then."""

import json
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import patch

from lockstep.exercises.labs.lab_10_checkpoint.solution import *
from lockstep.parallel import resume

FAILS = {"publish"}


def seal(tmp: Path, final: Path, manifest: dict[str, Any]) -> None:
    """Publish, then seal."""
    shutil.rmtree(final, ignore_errors=True)
    resume.sync(tmp)
    tmp.rename(final)
    file = final / resume.MANIFEST
    resume.write_bytes(file, json.dumps(manifest).encode())
    resume.sync(final)
    resume.sync(final.parent)


def publish(root: Path, step: int, parts: dict[str, Any]) -> None:
    """With its manifest last."""
    with patch.object(resume, "seal", seal):
        resume.publish(root, step, parts)
