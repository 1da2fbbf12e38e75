"""The script that takes the stacks of a node's ranks."""

import os
import subprocess
from pathlib import Path

import pytest

from .batch import LAUNCH, executable
from .hosts import hindrance

# Stands for torchrun with two ranks, of which the second has a loader worker.
AGENT = """
RANK=8 sleep 60 &
RANK=9 bash -c 'sleep 60 & wait' &
echo ready
wait
"""


def test_the_stacks_of_a_nodes_ranks_get_a_file_each(tmp_path: Path) -> None:
    """The script writes one stack for each child of torchrun, under the name
    of its rank, and none for a rank's own children."""
    if hindrance():
        pytest.skip(hindrance())
    (tmp_path / "bin").mkdir()
    agent = executable(tmp_path / "bin" / "torchrun", AGENT)
    executable(tmp_path / "py-spy", 'echo "$@"; cat /proc/$4/comm')
    # A namespace of its own, since the script sees all torchruns of a node.
    alone = "unshare", "--user", "--map-root-user", "--pid", "--fork"
    alone += "--mount-proc", "--kill-child"
    both = f"{agent} | (read; {LAUNCH}/stacks {tmp_path}/out; kill -9 -1)"
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(
        [*alone, "bash", "-c", both],
        env={**os.environ, "PATH": path},
        timeout=60,
        check=False,
    )
    found = {p.name: p.read_text() for p in (tmp_path / "out").iterdir()}
    assert sorted(found) == ["rank-8.txt", "rank-9.txt"]
    assert found["rank-8.txt"].endswith("sleep\n")
    assert found["rank-9.txt"].endswith("bash\n")
    assert found["rank-8.txt"].startswith("dump --nonblocking --pid ")
