"""The ranks of one node, as children of one script."""

import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "code" / "launch" / "node-ranks"
NODE = {"PATH": "/usr/bin:/bin", "NODE_RANK": "1", "NNODES": "3"}


def node(rank: str, count: int = 2) -> subprocess.Popen[str]:
    """Start `count` ranks that run `rank`, which is bash."""
    return subprocess.Popen(
        [str(SCRIPT), str(count), "bash", "-c", rank],
        env=NODE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_each_rank_of_a_node_is_told_who_it_is() -> None:
    """The second of three nodes with two devices has ranks 2 and 3 of 6."""
    ranks = node('echo "$RANK $LOCAL_RANK $WORLD_SIZE"')
    said, _ = ranks.communicate(timeout=60)
    assert sorted(said.splitlines()) == ["2 0 6", "3 1 6"]
    assert ranks.returncode == 0


def test_the_first_failed_rank_ends_its_node_with_its_code() -> None:
    """A rank of a node exits with 2. The others get SIGTERM, and the pod's exit
    code is 2, whatever the others leave with."""
    waits = "trap 'exit 75' TERM; echo ready; while :; do sleep 0.1; done"
    ranks = node(f"[ $LOCAL_RANK = 2 ] && sleep 1 && exit 2; {waits}", count=3)
    said, _ = ranks.communicate(timeout=60)
    assert said == "ready\n" * 2
    assert ranks.returncode == 2


def test_sigterm_to_a_node_reaches_each_rank() -> None:
    """SIGTERM to the script reaches every rank of the node, and the script
    leaves with the code with which they leave."""
    told = "trap 'echo told; exit 75' TERM"
    ranks = node(f"{told}; echo ready; while :; do sleep 0.1; done")
    assert ranks.stdout is not None
    for _ in range(2):
        assert ranks.stdout.readline() == "ready\n"
    ranks.terminate()
    said, _ = ranks.communicate(timeout=60)
    assert said == "told\n" * 2
    assert ranks.returncode == 75
