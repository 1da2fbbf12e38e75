"""The image's recipe, read by a linter: no test here builds it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "code" / "launch" / "Containerfile"


def test_the_linter_has_nothing_to_say() -> None:
    """The linter hadolint accepts the container's recipe without a remark."""
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    linter = shutil.which("hadolint", path=tools)
    if linter is None:
        end = pytest.fail if os.environ.get("CI") else pytest.skip
        end("hadolint is not installed")
    done = subprocess.run([linter, RECIPE], capture_output=True, text=True)
    assert done.stdout + done.stderr == ""
    assert done.returncode == 0


def test_what_it_copies_is_there() -> None:
    copied = re.findall(r"^COPY (.+) \S+$", RECIPE.read_text(), re.M)
    names = [name for line in copied for name in line.split()]
    assert "code" in names
    assert all((ROOT / name).exists() for name in names)
