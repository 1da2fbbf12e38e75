"""On a machine with one GPU the trainers that are graded stay off it: two ranks
cannot share it under NCCL. Labs name no device."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lockstep.debugging.bugs import bugs
from lockstep.drills import drills

pytestmark = pytest.mark.timeout(300)
GRADED = "-m", "lockstep.grading"
# Every process starts with it. A torch without CUDA raises where it is used.
ONE_GPU = """\
import os

import torch

shown = lambda: int(os.environ.get("CUDA_VISIBLE_DEVICES") != "")
torch.cuda.device_count = shown
torch.cuda.is_available = lambda: shown() > 0
"""


def python(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """On a machine that seems to have a GPU."""
    (folder / "sitecustomize.py").write_text(ONE_GPU)
    env = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"}
    return subprocess.run(
        [sys.executable, *args],
        env=env | {"PYTHONPATH": str(folder)},
        cwd=folder,
        text=True,
        capture_output=True,
    )


def test_the_stand_in_is_seen(tmp_path: Path) -> None:
    cut = str(drills()["4"].solution)
    launcher = "-m", "torch.distributed.run", "--standalone"
    done = python(tmp_path, *launcher, cut, "--max-steps", "1")
    assert done.returncode == 1
    assert "cuda" in done.stderr


def test_a_drill_is_graded_beside_it(tmp_path: Path) -> None:
    cut = str(drills()["4"].solution)
    done = python(tmp_path, *GRADED, "drill", "4", cut)
    assert "100 of 100" in done.stdout, done.stderr


@pytest.mark.weekly
def test_a_bug_is_graded_beside_it(tmp_path: Path) -> None:
    for name, text in bugs()["08"].solution().items():
        (tmp_path / name).write_text(text)
    done = python(tmp_path, *GRADED, "bug", "08", "answer.py")
    assert "100 of 100" in done.stdout, done.stderr
