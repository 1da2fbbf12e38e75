"""What the pages of labs show of an answer ends, whatever the answer keeps."""

import os
import subprocess
import sys
from pathlib import Path

DEMO = """
import torch.distributed as dist
from lockstep.labs.demo import show


class Kept:
    def __del__(self):
        print("freed while there is a group:", dist.is_initialized())


def main(answer):
    kept = Kept()
    print(answer.WORD, "of", dist.get_world_size())


dist.destroy_process_group = lambda: print("destroyed")
show(main)
"""


def shown(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """A demonstration by one rank, as torchrun would start it."""
    (folder / "demo.py").write_text(DEMO, "utf-8")
    (folder / "answer.py").write_text("WORD = 'said'", "utf-8")
    launch = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": "0"}
    return subprocess.run(
        [sys.executable, "demo.py", *words],
        cwd=folder,
        env=os.environ | launch | {"MASTER_ADDR": "127.0.0.1"},
        text=True,
        capture_output=True,
    )


def test_the_group_outlives_what_the_demonstration_made(
    tmp_path: Path,
) -> None:
    """Or a DDP that is freed last waits for a thread that waits for Python's
    lock: lab B3's hung once in fifty runs."""
    done = shown(tmp_path, "answer.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "said of 1",
        "freed while there is a group: True",
    ]


def test_without_an_answer_it_says_what_it_wants(tmp_path: Path) -> None:
    done = shown(tmp_path)
    assert done.returncode == 1
    assert done.stderr == "usage: torchrun ... demo.py FILE\n"
