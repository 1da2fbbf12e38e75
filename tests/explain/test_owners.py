"""A line belongs to a rank and a node: whose is it, and was it a victim?"""

from __future__ import annotations

from pathlib import Path

import pytest

from lockstep.explain import catalog, reading
from lockstep.explain.together import explained

REPORT = """\
E1128 03:40:12.0 4 torch/distributed/elastic/multiprocessing/api.py:869] failed
Failures:
{others}Root Cause (first observed failure):
[0]:
  time      : 2026-11-28_03:40:10
  host      : {host}
  rank      : {rank} (local_rank: {local})
  exitcode  : {code} (pid: {pid})
"""
TABLE = """\
I1128 03:00:00.0 4 torch/distributed/elastic/agent/server/api.py:525] \
[default] Rendezvous complete for workers. Result:
  group_rank=1
  local_ranks=[0, 1, 2, 3]
  global_ranks=[12, 13, 14, 15]
"""
CRASH = (
    "Traceback (most recent call last):\n"
    '  File "/srv/train.py", line 9, in main\n'
    "ValueError: no mask\n"
)
CLOSED = (
    "[rank{0}]:[E1128 03:40:08.1 P.cpp:684] [Rank {0}] Some NCCL operations"
    " have failed or timed out. Due to the asynchronous nature of CUDA"
    " kernels\n"
)


def verdict(folder: Path, logs: dict[str, str]) -> dict:
    """The verdict on logs, given by their paths."""
    for name, text in logs.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return explained(reading.found([str(folder)]), catalog.index())


def report(rank: int, local: int, code: int = 1, **more: object) -> str:
    """torchrun's report on its first failure."""
    given = {"host": "n2", "pid": 7801, "others": ""} | more
    return REPORT.format(rank=rank, local=local, code=code, **given)


LOCAL = "n2/none_x1/attempt_0/{}/stderr.log"
# What says that local rank 1 of this folder is rank 13.
EVIDENCE = {
    "report": {"n2/agent.log": report(15, 3)},
    "table": {"n2/agent.log": TABLE},
    "own lines": {LOCAL.format(1): CLOSED.format(13) + CRASH},
    "another rank's lines": {LOCAL.format(0): CLOSED.format(12)},
}


@pytest.mark.parametrize("kind", EVIDENCE)
def test_a_local_ranks_folder_gets_its_global_rank(
    kind: str, tmp_path: Path
) -> None:
    """Folders of torchrun have the names of local ranks. Its report, its table,
    or the ranks that lines name say which global ranks they are."""
    logs = {LOCAL.format(1): CRASH} | EVIDENCE[kind]
    # A second node has the same local ranks.
    logs["n1/none_y2/attempt_0/1/stderr.log"] = CLOSED.format(1)
    found = verdict(tmp_path, logs)
    assert (found["rank"], found["ranks"]) == (13, [13])
    assert found["headline"].startswith("First fault: rank 13")


def test_an_unresolved_local_rank_is_called_local(tmp_path: Path) -> None:
    """No line says which global rank local rank 5 is: the verdict doesn't
    call it rank 5. The kernel's log says which node it is on."""
    logs = {
        "n2/none_x1/attempt_0/5/stderr.log": CRASH,
        "n2/journal.log": "Nov 28 03:00:00 n2 systemd[1]: Started Session 1.\n",
    }
    found = verdict(tmp_path, logs)
    assert (found["rank"], found["ranks"], found["node"]) == (None, [], "n2")
    assert found["headline"] == (
        "First fault: local rank 5 of node n2: ValueError: no mask"
    )


def test_an_exit_gets_the_rank_that_its_folder_knows(tmp_path: Path) -> None:
    """The agent of n2 wrote no report, but lines of local rank 0 say that it
    is rank 12, and a peer's message says that n2 is a node."""
    peer = (
        "Last error:\nsocketProgress: Connection closed by remote peer n2<4>\n"
    )
    failed = (
        "E1128 03:40:12.0 4 torch/distributed/elastic/multiprocessing/api.py"
        ":869] failed (exitcode: -11) local_rank: 1 (pid: 7802) of binary: py\n"
    )
    logs = {
        LOCAL.format(0): CLOSED.format(12),
        LOCAL.format(1): "fine\n",
        "n2/agent.log": failed,
        "n1/none_y2/attempt_0/0/stderr.log": CLOSED.format(0) + peer,
    }
    found = verdict(tmp_path, logs)
    assert (found["rank"], found["node"]) == (13, "n2")


def test_runs_in_one_folder_are_told_apart_by_their_nodes(
    tmp_path: Path,
) -> None:
    """Agents of two nodes share a log folder. NCCL's lines say which run is
    whose, and the reports say the nodes' ranks."""
    start = "{}:71:71 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n"
    logs = {
        "logs/none_x1/attempt_0/1/stdout.log": start.format("n1"),
        "logs/none_x2/attempt_0/1/stdout.log": start.format("n2"),
        "logs/none_x2/attempt_0/1/stderr.log": CRASH,
        "logs/agents.log": report(0, 0, -6, host="n1") + report(15, 3),
    }
    found = verdict(tmp_path, logs)
    assert (found["rank"], found["node"]) == (13, "n2")


def test_local_ranks_that_disagree_resolve_no_other(tmp_path: Path) -> None:
    """Where a folder's ranks don't follow each other, only a file's own lines
    name its rank."""
    logs = {
        LOCAL.format(0): CLOSED.format(12),
        LOCAL.format(1): CLOSED.format(2),
        LOCAL.format(2): CRASH,
    }
    assert verdict(tmp_path, logs)["rank"] is None


def test_several_local_ranks_with_one_message_are_one_fault(
    tmp_path: Path,
) -> None:
    logs = {LOCAL.format(local): CRASH for local in range(3)}
    found = verdict(tmp_path, logs)
    assert found["headline"].startswith("First fault: 3 local ranks")


@pytest.mark.parametrize("code", [-9, -7, -11])
def test_a_signal_outranks_the_abort_of_a_victim(
    code: int, tmp_path: Path
) -> None:
    """torchrun lists rank 0's abort as the root cause, but rank 0 only lost
    its peer, and rank 2 died by a signal in the same second."""
    other = "[1]:\n" + REPORT.split("[0]:\n")[1]
    other = other.format(host="n2", rank=2, local=2, code=code, pid=7803)
    logs = {
        "agent.log": report(0, 0, -6, others=other),
        "rank_0.log": CLOSED.format(0),
        "rank_1.log": CLOSED.format(1),
    }
    found = verdict(tmp_path, logs)
    assert (found["rank"], found["node"]) == (2, "n2")
    assert f"exitcode : {code} (pid: 7803)" in found["text"]


def test_a_kill_by_torchrun_itself_is_no_first_fault(tmp_path: Path) -> None:
    """Rank 2 didn't stop in time, so torchrun killed it: rank 0's abort isn't
    explained by that."""
    other = "[1]:\n" + REPORT.split("[0]:\n")[1]
    other = other.format(host="n2", rank=2, local=2, code=-9, pid=7803)
    forced = (
        "W1128 03:40:40.8 17 torch/distributed/elastic/multiprocessing/api.py"
        ":1048] Unable to shutdown process 7803 via 15, forcefully exiting via"
        " 9\n"
    )
    logs = {
        "agent.log": forced + report(0, 0, -6, others=other),
        "rank_0.log": CLOSED.format(0),
    }
    assert not verdict(tmp_path, logs)["known"]


SIGNALED = (
    "W1128 03:40:0{}.0 17 torch/distributed/elastic/agent/server/api.py:719]"
    " Received 15 death signal, shutting down workers\n"
    "W1128 03:40:0{}.0 17 torch/distributed/elastic/multiprocessing/api.py:897]"
    " Sending process 7801 closing signal SIGTERM\n"
)


def stopped(*nodes: str, crash: str = "", minute: int = 40) -> dict[str, str]:
    """Logs of three nodes; torchrun on some was told to stop, and on n1 in
    that minute."""
    logs = {}
    for at, node in enumerate(("n1", "n2", "n3")):
        agent = report(4 * at, 0, -6, host=node)
        if node in nodes:
            agent = SIGNALED.format(at, at)
            if node == "n1":
                agent = agent.replace("03:40", f"03:{minute}")
        logs[f"{node}/agent.log"] = agent
        journal = f"Nov 28 03:00:00 {node} systemd[1]: Started Session 1.\n"
        logs[f"{node}/journal.log"] = journal
        text = (
            CLOSED.format(4 * at) if node not in nodes else "fine\n"
        ) + crash
        logs[f"{node}/none_x{at}/attempt_0/0/stderr.log"] = text
    return logs


def test_the_node_whose_agent_was_told_to_stop_is_named(
    tmp_path: Path,
) -> None:
    """torchrun on n2 received SIGTERM, and the others lost their peer. The
    signal belongs to n2's agent, and to no rank: pids repeat on every node."""
    found = verdict(tmp_path, stopped("n2"))
    assert found["known"]
    assert (found["rank"], found["ranks"], found["node"]) == (None, [], "n2")
    assert "Received 15 death signal" in found["text"]
    assert all(
        not one["ranks"] for one in found["echoes"] if "SIGTERM" in one["title"]
    )


def test_an_agents_signal_after_a_crash_is_an_echo(tmp_path: Path) -> None:
    found = verdict(tmp_path, stopped("n2", crash=CRASH))
    assert "ValueError" in found["headline"]


def test_agents_that_were_all_told_to_stop_accuse_no_node(
    tmp_path: Path,
) -> None:
    assert verdict(tmp_path, stopped("n1", "n2", "n3"))["node"] == ""


def test_the_agent_that_was_told_to_stop_first_is_named(tmp_path: Path) -> None:
    """n1's agent received the signal two minutes before n2's."""
    assert verdict(tmp_path, stopped("n1", "n2", minute=38))["node"] == "n1"


def test_victims_point_to_the_peer_that_they_lost(tmp_path: Path) -> None:
    """The logs of n9 are missing. torchrun saw ranks of n1 and n2 fail first,
    but they only lost n9, so n9 is the node to look at."""
    peer = (
        "Last error:\nsocketProgress: Connection closed by remote peer n9<4>\n"
    )
    logs = {}
    for at, node in enumerate(("n1", "n2")):
        logs[f"{node}/agent.log"] = report(4 * at, 0, -6, host=node)
        logs[f"{node}/none_x{at}/attempt_0/0/stderr.log"] = (
            CLOSED.format(4 * at) + peer
        )
    found = verdict(tmp_path, logs)
    assert not found["known"]
    assert found["headline"] == (
        "First fault not found; look at node n9 first."
    )


def test_victims_of_a_timeout_are_not_the_ranks_to_look_at(
    tmp_path: Path,
) -> None:
    """Only n1's logs are here. All its ranks waited for one collective, so the
    abort that torchrun saw first says nothing about rank 1."""
    waited = (
        "[rank{0}]:[E1128 03:40:0{0}.1 P.cpp:632] [Rank {0}] Watchdog caught"
        " collective operation timeout: WorkNCCL(SeqNum=8, OpType=ALLREDUCE,"
        " NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600012"
        " milliseconds before timing out.\n"
    )
    logs = {f"rank_{n}.log": waited.format(n) for n in range(4)}
    logs["agent.log"] = report(1, 1, -6, host="n1")
    found = verdict(tmp_path, logs)
    assert not found["known"]
    assert found["ranks"] == []
    assert "every rank waited for the same collective" in found["why"]


OOM = "slurmstepd: error: Detected 1 oom_kill event in StepId=771.0. Some of"
OOM += " the step tasks have been OOM Killed.\nsrun: error: n2: task 1: Out Of"
OOM += " Memory\n"


def test_a_task_of_srun_is_an_agent_where_torchrun_runs(tmp_path: Path) -> None:
    """srun's task 1 is torchrun on n2, whose report says that rank 15 was
    killed. Without torchrun, task 1 is rank 1."""
    logs = {
        "n1/agent.log": report(1, 1, -6, host="n1"),
        "n1/none_x1/attempt_0/1/stderr.log": CLOSED.format(1),
        "n2/agent.log": report(15, 3, -9),
        "slurm.out": OOM,
    }
    found = verdict(tmp_path / "agents", logs)
    assert (found["rank"], found["node"]) == (15, "n2")
    assert len(found["exits"]) == 2
    found = verdict(tmp_path / "tasks", {"slurm.out": OOM})
    assert (found["rank"], found["node"]) == (1, "n2")
