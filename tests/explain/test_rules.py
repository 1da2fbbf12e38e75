"""The rules that join lines of several ranks, nodes and kinds of logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lockstep.explain import catalog, page, reading, stacks
from lockstep.explain.lines import ranked, when
from lockstep.explain.peers import bus, device
from lockstep.explain.progress import elapsed
from lockstep.explain.together import explained

CANCELLED = (
    "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-28T09:02:00"
)


def verdict(folder: Path, **logs: str) -> dict:
    """The verdict on logs, given by the names of their files."""
    for name, text in logs.items():
        (folder / f"{name.replace('_', '-')}.log").write_text(text)
    return explained(reading.found([str(folder)]), catalog.index())


def four(odd: str, usual: str = "epoch 7 start") -> str:
    """The last lines of four ranks; rank 2 logged something else."""
    step = "11/28 03:02:0{0} [n1] r{0} epoch 6 step 90 loss 2.{0}1\n"
    last = "11/28 03:05:0{0} [n1] r{0} {1}\n"
    lines = [step.format(rank) for rank in range(4)]
    lines += [last.format(r, odd if r == 2 else usual) for r in range(4)]
    return "".join(lines)


@pytest.mark.parametrize("why", [" ***", " DUE TO TIME LIMIT ***"])
def test_the_rank_whose_last_line_differs_is_named_after_a_hang(
    why: str, tmp_path: Path
) -> None:
    """Three ranks begin an epoch and rank 2 saves; six hours later Slurm ends
    the job. The verdict is rank 2 with both lines, whether a user or the time
    limit ended the job."""
    found = verdict(
        tmp_path,
        train=four("saving checkpoint ep6"),
        slurm=CANCELLED + why + "\n",
        dmesg="[Sat Nov 28 09:01:00 2026] eth0: renamed from veth3\n",
    )
    assert found["known"]
    assert (found["rank"], found["node"]) == (2, "n1")
    assert "saving checkpoint" in found["evidence"][0]["text"]
    assert found["evidence"][0]["line"] == 7
    assert "epoch 7 start" in found["evidence"][1]["text"]
    assert "(28 Nov 03:05:03) is 357 minutes older" in found["why"]


def test_a_hang_with_equal_last_lines_names_no_rank(tmp_path: Path) -> None:
    found = verdict(
        tmp_path,
        train=four("epoch 7 start"),
        slurm=CANCELLED + " DUE TO TIME LIMIT ***\n",
    )
    assert found["headline"].startswith("First fault: the job hung")
    assert (found["ranks"], found["node"]) == ([], "")


def test_a_time_limit_during_progress_is_the_fault(tmp_path: Path) -> None:
    """Where ranks logged until the limit, the limit itself is named, and a
    different last line means nothing."""
    end = CANCELLED.replace("09:02:00", "03:05:30")
    found = verdict(
        tmp_path,
        train=four("saving checkpoint ep6"),
        slurm=end + " DUE TO TIME LIMIT ***\n",
    )
    assert found["id"] == "slurm-due-to-time-limit"
    assert (found["rank"], found["node"]) == (None, "n1")
    assert found["confidence"] != "low"


def test_a_progress_bar_says_how_long_the_job_ran(tmp_path: Path) -> None:
    """The lines in front of the time limit have no time, but the progress bar
    counts 12 minutes from the last time."""
    log = (
        "2026-11-28 08:40:00,118 INFO train: begin\n"
        + "{'loss': 2.31}\n" * 9
        + "1%| | 9/1120 [12:02<24:46:41, 80.29s/it]\n"
    )
    late, soon = tmp_path / "late", tmp_path / "soon"
    late.mkdir()
    soon.mkdir()
    end = CANCELLED + " DUE TO TIME LIMIT ***\n"
    found = verdict(soon, run=log + end)
    assert "minutes older" not in found["why"]
    found = verdict(late, run=log + end.replace("09:02:00", "10:02:00"))
    assert "70 minutes older" in found["why"]
    assert elapsed("[1:00:02<24:46:41, 80.29s/it]") == 3602
    assert elapsed("[12:02<") == 722
    assert elapsed("a < b") == elapsed("[x<1") == 0


STACK = """\
$ py-spy dump --locals --pid {pid}   # n1, rank {rank}, 2026-11-28 07:30
Thread {pid} (active): "MainThread"
    wait (deepspeed/runtime/zero/partition_parameters.py:721)
    forward (moe.py:218)
        Locals:
            expert_idx: {expert}
            rank: {rank}
"""


def test_stacks_show_why_a_job_hung(tmp_path: Path) -> None:
    """Two ranks wait in the same call for different experts; the shell's
    commands name the ranks."""
    dump = "\n".join(
        STACK.format(pid=61200 + rank, rank=rank, expert=40 + rank)
        for rank in (2, 3)
    )
    assert [one.rank for one in stacks.read(dump)] == [2, 3]
    found = verdict(
        tmp_path,
        spy=dump,
        train=four("epoch 7 start"),
        slurm=CANCELLED + " DUE TO TIME LIMIT ***\n",
    )
    assert "expert_idx differs (42, 43)" in found["why"]
    assert found["confidence"] == "medium"


def test_the_stack_that_differs_names_the_rank_of_a_hang(
    tmp_path: Path,
) -> None:
    dump = "\n".join(
        STACK.format(pid=61200 + rank, rank=rank, expert=1) for rank in range(4)
    )
    dump = dump.replace("moe.py:218", "save.py:9", 1)
    found = verdict(
        tmp_path,
        spy=dump,
        train=four("epoch 7 start"),
        slurm=CANCELLED + " DUE TO TIME LIMIT ***\n",
    )
    assert found["rank"] == 0
    assert "save.py:9" in found["headline"]


BOOTSTRAP = "w-{0}:71:71 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.{0}<0>\n"
LOST = (
    "w-{0}:72:241 [1] ib_plugin.c:1615 NCCL WARN NET/IB : Got completion from"
    " peer 10.0.0.{1}<44202> with status=12 opcode=1 len=0 vendor err 129\n"
)
PODS = """\
NAME   READY   STATUS   RESTARTS      AGE   IP         NODE
w-2    0/1     Error    1 (3h ago)    11h   10.0.0.2   knode-07
"""


def test_the_peer_that_several_nodes_lost_is_named(tmp_path: Path) -> None:
    """Nodes 1 and 3 lost node 2, which itself lost node 3: the verdict is
    node 2, by the name that belongs to its address."""
    logs = {
        f"worker_{a}": BOOTSTRAP.format(a) + LOST.format(a, b)
        for a, b in ((1, 2), (2, 3), (3, 2))
    }
    found = verdict(tmp_path, **logs, kubectl=PODS)
    assert (found["node"], found["rank"]) == ("w-2", None)
    assert "2 peers lost 10.0.0.2 at once" in found["why"]
    assert "w-2 on knode-07" in found["why"]
    pasted = page.explained(catalog.index(), "".join(logs.values()))
    assert pasted["node"] == "w-2"


@pytest.mark.parametrize("again", [False, True])
def test_two_nodes_that_lost_each_other_accuse_nobody(
    again: bool, tmp_path: Path
) -> None:
    """Nor does one node that repeats its message without its name."""
    pairs = [(1, 2)] if again else [(1, 2), (2, 1)]
    logs = {
        f"worker_{a}": BOOTSTRAP.format(a) + LOST.format(a, b) for a, b in pairs
    }
    if again:
        logs["worker_1"] += "[rank1]: " + LOST.split("NCCL WARN ")[1].format(
            1, 2
        )
    assert "peers lost" not in verdict(tmp_path, **logs)["why"]


WAITED = (
    "[rank{0}]: Traceback (most recent call last):\n"
    '[rank{0}]:   File "/srv/train.py", line 9, in main\n'
    "[rank{0}]: torch.distributed.DistBackendError: [{0}] is setting up NCCL"
    " communicator and retrieving ncclUniqueId from [0] via c10d key-value"
    " store by key '0', but store->get('0') got error: wait timeout after"
    " 1800000ms, keys: /default_pg/0//cuda//0\n"
)
FAILED = """\
Root Cause (first observed failure):
[0]:
  time      : 2026-11-28_03:40:10
  host      : n7
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 7802)
"""


def test_the_rank_whose_key_was_awaited_is_named(tmp_path: Path) -> None:
    """Ranks 1 to 3 time out on rank 0's key. torchrun saw rank 1 fail first,
    but rank 0 is the rank to look at, unless it failed too."""
    waits = "".join(WAITED.format(rank) for rank in (1, 3, 2))
    found = verdict(tmp_path, run=waits + FAILED)
    assert found["known"]
    assert found["rank"] == 0
    assert "ranks 1 to 3 waited" in found["headline"]
    crash = "[rank0]:[E1128 03:00:00.1 P.cpp:1] [Rank 0] Some NCCL operations"
    crash += " have failed or timed out. Due to the asynchronous nature of CUDA"
    found = verdict(tmp_path, run=waits + crash + " kernels\n" + FAILED)
    assert found["rank"] != 0


def test_different_rendezvous_endpoints_are_the_fault(tmp_path: Path) -> None:
    """Two agents that were given different ports can't meet. Agents with equal
    endpoints get no such verdict."""
    logs = {}
    for name, port in (("a", 29500), ("b", 29400)):
        logs[name] = (
            "I1128 19:05:40.412000 9 torch/distributed/launcher/api.py:195]  "
            f" rdzv_endpoint    : n1:{port}\n"
            "Traceback (most recent call last):\n"
            "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError\n"
        )
    found = verdict(tmp_path, **logs)
    assert found["headline"] == (
        "First fault: rdzv_endpoint differs: n1:29400 and n1:29500"
    )
    logs["b"] = logs["b"].replace("29400", "29500")
    assert "differs" not in verdict(tmp_path, **logs)["headline"]


ECHO = (
    "[rank0]:[E1128 03:40:10.1 P.cpp:684] [Rank 0] Some NCCL operations have"
    " failed or timed out. Due to the asynchronous nature of CUDA kernels\n"
)
KERNEL = "[Sat Nov 28 03:40:09 2026] NVRM: Xid (PCI:0000:ab:00): 79, GPU has"
KERNEL += " fallen off the bus.\n"


def test_a_bus_address_names_the_rank(tmp_path: Path) -> None:
    """The kernel names a GPU, and NCCL says which rank uses it. The rank in
    the largest group counts."""
    comm = "n7:52113:53016 [5] NCCL INFO comm 0x55 rank {} nranks {} cudaDev 5"
    comm += " nvmlDev 5 busId ab000 commId 0x7e - Init COMPLETE\n"
    nccl = comm.format(13, 16) + comm.format(1, 2)
    found = verdict(tmp_path, dmesg_n7=KERNEL, nccl=nccl)
    assert (found["rank"], found["node"]) == (13, "n7")
    assert device(comm.format(13, 16)) == (bus("0000:ab:00"), 16, 13)
    assert bus("0001:ab:02.0") == 0x1AB020
    assert bus("") == bus("0:x:1") == -1
    assert device("rank 1 nranks 2 busId") is None
    assert device("rank 1 nranks x busId 1") is None
    assert device("rank 1 nranks 2 busId y") is None


def test_an_xid_that_no_message_describes_is_a_cause(tmp_path: Path) -> None:
    """Xid 62 has no page here, but the kernel's line still comes before the
    aborts of the ranks that lost their peer. Xid 45, which has a page and is
    an echo, stays an echo."""
    line = "[Sat Nov 28 03:40:0{} 2026] NVRM: Xid (PCI:0000:ab:00): {}\n"
    kernel = line.format(8, "62, 00002740 00002b08") + line.format(
        9, "45, pid=5711, name=python3, channel 0x0000000a"
    )
    comm = "n7:52113:53016 [5] NCCL INFO comm 0x55 rank 13 nranks 16 cudaDev 5"
    comm += " nvmlDev 5 busId ab000 commId 0x7e - Init COMPLETE\n"
    found = verdict(tmp_path, dmesg_n7=kernel, nccl=comm + ECHO)
    assert found["headline"] == "First fault: rank 13 on n7: NVRM: Xid 62"
    assert "analyzing-xid-catalog" in found["check"][0]["do"]
    kernel = kernel.split("\n")[1] + "\n"
    found = verdict(tmp_path, dmesg_n7=kernel, nccl=comm + ECHO)
    assert not found["known"] or "Xid 62" not in found["headline"]


def test_a_kernels_line_before_the_rest_is_believed(tmp_path: Path) -> None:
    """An exception without a time doesn't make a kernel's line doubtful, but
    one that came before it does."""
    crash = (
        "[rank5]: Traceback (most recent call last):\n"
        '[rank5]:   File "/srv/train.py", line 9, in main\n'
        "[rank5]: RuntimeError: CUDA error: uncorrectable ECC error"
        " encountered\n"
    )
    found = verdict(tmp_path, dmesg_n7=KERNEL, run=crash)
    assert found["layer"] == "gpu"
    assert found["confidence"] == "medium"
    early = "2026-11-28 03:40:07,118 INFO step 4\n"
    early += crash.replace("uncorrectable ECC error", "misaligned address")
    found = verdict(tmp_path, early=early)
    assert found["confidence"] == "low"


def test_a_local_rank_becomes_a_rank(tmp_path: Path) -> None:
    """A node's ranks follow each other: where local rank 3 is rank 11, local
    rank 1 is rank 9."""
    log = (
        "E1128 02:41:45.1 4 torch/distributed/elastic/multiprocessing/api.py"
        ":869] failed (exitcode: -9) local_rank: 1 (pid: 33811) of binary: py\n"
        + FAILED.replace("1 (local_rank: 1)", "11 (local_rank: 3)")
    )
    found = verdict(tmp_path, agent=log)
    exits = [(one["rank"], one["node"]) for one in found["exits"]]
    assert exits == [(9, "n7"), (11, "n7")]


def test_an_exception_gets_the_rank_that_logs_it_again(tmp_path: Path) -> None:
    log = (
        "Traceback (most recent call last):\n"
        '  File "/srv/train.py", line 9, in main\n'
        "ValueError: no such split: dev\n"
        "[2026-11-28 03:02:18] CRITICAL [olmo.util:158, rank=6] Uncaught"
        " ValueError: no such split: dev\n"
    )
    found = verdict(tmp_path, run=log)
    assert found["headline"].startswith("First fault: rank 6: ValueError")


@pytest.mark.parametrize(
    ("line", "rank", "loose"),
    [
        ("[2026-11-28 03:02:18] INFO [app:1, rank=6] loading", 6, 6),
        ("[app:1, local_rank=6] loading", None, None),
        ("[app:1, global_rank=6] loading", 6, 6),
        ("01/22 00:52:31 [h200-12] r6 new best", 6, 6),
        ("2026-11-28 03:02:18 INFO rank 3 step 7", None, 3),
        ("rank 3 failed to pass monitoredBarrier", None, 3),
        ("waiting for rank 3", None, None),
        ("[a] loss rank=3", None, None),
        ("", None, None),
    ],
)
def test_loggers_name_their_rank(
    line: str, rank: int | None, loose: int | None
) -> None:
    assert ranked(line) == rank
    assert ranked(line, words=True) == loose


def test_a_month_and_a_day_are_a_date() -> None:
    """`01/22`, as detectron2 writes it."""
    assert when("[01/22 00:00:31 d2]: x") == (0, 21 * 86400 + 31)
    assert when("13/45 00:00:31 x") is None
    assert when("ab/cd 00:00:31 x") is None


def test_a_kernels_warnings_do_not_date_the_failure(tmp_path: Path) -> None:
    """A machine check at midnight and storage that came back an hour before
    the exception: the exception is the first fault."""
    kernel = (
        "[Sat Nov 28 00:41:02 2026] mce: [Hardware Error]: Machine check events"
        " logged\n"
        "[Sat Nov 28 01:18:55 2026] nfs: server 10.60.2.9 not responding, still"
        " trying\n"
    )
    run = (
        "2026-11-28 02:17:39,449 INFO step 41240\n"
        "[rank5]: Traceback (most recent call last):\n"
        '[rank5]:   File "/srv/train.py", line 9, in main\n'
        "[rank5]: ValueError: no mask\n"
        "[rank0]:[E1128 02:27:41.1 P.cpp:1] [Rank 0] Some NCCL operations have"
        " failed or timed out. Due to the asynchronous nature of CUDA kernels\n"
    )
    found = verdict(tmp_path, dmesg_n7=kernel, run=run)
    assert found["headline"].startswith("First fault: rank 5: ValueError")


TIMED_OUT = (
    "[rank{0}]:[E1128 09:1{0}:00.1 P.cpp:632] [Rank {0}] Watchdog caught"
    " collective operation timeout: WorkNCCL(SeqNum=880, OpType={1},"
    " NumelIn={2}, NumelOut={2}, Timeout(ms)=600000) ran for 600012"
    " milliseconds before timing out.\n"
)
OOM = "2026-11-28 09:0{}:00,118 WARNING trainer: CUDA out of memory. Tried to"
OOM += " allocate 2.41 GiB. GPU 0 has a total capacity of 79.11 GiB\n"


def timed_out(odd: dict[str, Any], op: str = "ALLREDUCE") -> str:
    """The lines of four ranks; rank 2 waited for something else."""
    usual = {"op": op, "numel": 4096}
    ranks = [usual | (odd if rank == 2 else {}) for rank in range(4)]
    return "".join(
        TIMED_OUT.format(n, one["op"], one["numel"])
        for n, one in enumerate(ranks)
    )


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        ({"op": "BROADCAST"}, "rank 2 called BROADCAST"),
        ({"numel": 1}, "rank 2 called ALLREDUCE of 1 elements"),
    ],
)
def test_the_rank_with_another_collective_is_quoted(
    odd: dict[str, Any], why: str, tmp_path: Path
) -> None:
    """Four ranks time out at one number, and rank 2 waited for a different
    operation or size: the verdict names rank 2 and quotes its line."""
    found = verdict(tmp_path, run=timed_out(odd))
    assert found["headline"] == (
        "First fault: rank 2 called a different collective than the others."
    )
    assert why in found["why"]
    assert found["text"].startswith("[rank2]")


def test_sizes_that_may_differ_accuse_nobody(tmp_path: Path) -> None:
    log = timed_out({"numel": 7}, "ALLTOALL_BASE")
    assert verdict(tmp_path, run=log)["ranks"] == []


def test_the_swallowed_error_of_the_rank_that_parted_is_the_fault(
    tmp_path: Path,
) -> None:
    """Ranks 1 and 2 ran out of memory and lived on, rank 1 first. Rank 2's
    all-reduce has another size than the others' at one number, so rank 2's
    error is the fault; where the sizes agree, the first error is."""
    oom = {f"rank_{rank}": OOM.format(rank) for rank in (1, 2)}
    assert verdict(tmp_path, run=timed_out({}), **oom)["rank"] == 1
    found = verdict(tmp_path, run=timed_out({"numel": 1}), **oom)
    assert found["rank"] == 2
    assert "CUDA out of memory" in found["text"]
    assert "lived on after it" in found["why"]


USING = "{0}:71:71 [0] NCCL INFO Bootstrap : Using {1}:{2}<0>\n"
# Wordings of NCCL 2.4 to 2.30.
REFUSED = [
    "include/socket.h:390 NCCL WARN Connect to {}<217> failed : Connection"
    " refused",
    "include/socket.h:409 NCCL WARN Net : Connect to {}<217> failed : No route"
    " to host",
    "misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to {}<217> failed"
    " : Software caused connection abort",
    "misc/socket.cc:533 NCCL WARN socketPollConnect: Connect to {}<217>"
    " returned 113(No route to host) errno 115(Operation now in progress)",
    "os/linux.cc:288 NCCL WARN ncclOsSocketPollConnect: connect to {}<217>"
    " returned Connection timed out, exceeded error retry count after 35"
    " attempts",
    "Last error:\nsocketStartConnect: Connect to {}<217> failed : No route to"
    " host",
]


@pytest.mark.parametrize("wording", REFUSED)
@pytest.mark.parametrize("last", ["docker0", "eth0"])
def test_the_node_with_another_interface_is_named(
    last: str, wording: str, tmp_path: Path
) -> None:
    """NCCL on n3 bootstrapped through docker0, and n1 can't connect to its
    address. If n3 uses the same interface as the others, no interface is
    named."""
    logs = "".join(USING.format(f"n{n}", "eth0", f"10.0.0.{n}") for n in (1, 2))
    logs += USING.format("n3", last, "172.17.0.1")
    logs += "n1:71:90 [0] " + wording.format("172.17.0.1") + "\n"
    found = verdict(tmp_path, run=logs)
    assert found["known"]
    if last == "docker0":
        assert found["headline"] == (
            "First fault: node n3: NCCL offers 172.17.0.1 of docker0, which"
            " the others can't reach"
        )
        assert found["check"][0]["do"] == "NCCL_SOCKET_IFNAME=eth0"
        assert "docker0" in found["evidence"][-1]["text"]
    else:
        assert "offers" not in found["headline"]


DESCRIBED = """Name:             w-2
Node:             knode-07/10.0.9.13
    Last State:     Terminated
      Reason:       {}
      Exit Code:    137
"""
EVENTS = """\
LAST SEEN   TYPE     REASON     OBJECT   MESSAGE
58m        Normal   Scheduled  pod/w-2  Successfully assigned ml/w-2 to knode-07
7m          Warning  Unhealthy  pod/w-2  Liveness probe failed: heartbeat is old
"""
KILLING = (
    "6m  Normal  Killing  pod/w-2  Container t failed liveness probe, will"
)
KILLING += " be restarted\n"


def test_a_failed_liveness_probe_explains_exit_code_137(
    tmp_path: Path,
) -> None:
    """The pod's node is known from the event that assigned it. The kubelet's
    line about the kill is a cause; a failed probe alone only may be."""
    described = DESCRIBED.format("Error")
    found = verdict(tmp_path, describe=described, events=EVENTS + KILLING)
    assert found["headline"] == (
        "First fault: pod w-2 on knode-07: Container failed liveness probe,"
        " will be restarted"
    )
    assert found["confidence"] == "high"
    found = verdict(tmp_path, describe=described, events=EVENTS)
    assert found["headline"].endswith("Liveness probe failed")
    assert found["confidence"] == "low"


def test_memory_is_the_last_cause_of_137_unless_the_reason_says_so(
    tmp_path: Path,
) -> None:
    found = verdict(tmp_path, describe=DESCRIBED.format("Error"))
    assert (found["id"], found["node"]) == (
        "kubernetes-exit-code-137",
        "knode-07",
    )
    assert found["causes"][-1]["cause"] == "Memory."
    found = verdict(tmp_path, describe=DESCRIBED.format("OOMKilled"))
    assert found["id"] == "kubernetes-oomkilled"


def test_a_stopped_container_engine_is_the_cause(tmp_path: Path) -> None:
    """An upgrade stopped Docker on n2: the kernel's journal names the node,
    and the others' lost connections are echoes."""
    journal = (
        "Nov 28 03:39:58 n2 systemd[1]: Stopping Docker Application Container"
        " Engine...\n"
    )
    found = verdict(tmp_path, journal_n2=journal, run=ECHO)
    assert (found["node"], found["rank"]) == ("n2", None)
    assert found["id"] == "container-engine-stopped"
    assert found["confidence"] == "high"
    late = journal.replace("03:39:58", "03:49:58")
    found = verdict(tmp_path, journal_n2=late, run=ECHO)
    assert found["confidence"] == "low"
    assert "588 s after the first echo" in found["why"]


def test_an_error_that_a_trainer_handles_all_the_time_is_not_the_fault(
    tmp_path: Path,
) -> None:
    """Rank 3 ran out of memory and recovered, with its peers. Later rank 1
    raised an exception, or a signal killed it."""
    handled = OOM.format(3) + (
        "2026-11-28 09:03:00 WARNING attempting to recover from OOM in"
        " forward/backward pass\n"
    )
    crash = (
        "2026-11-28 09:08:00,118 INFO step 4\n"
        "Traceback (most recent call last):\n"
        '  File "/srv/train.py", line 9, in main\nValueError: no mask\n'
    )
    found = verdict(tmp_path, rank_3=handled, rank_1=crash)
    assert found["headline"] == "First fault: rank 1: ValueError: no mask"
    killed = FAILED.replace("exitcode  : 1", "exitcode  : -9")
    found = verdict(tmp_path, rank_3=handled, rank_1=killed)
    assert (
        found["headline"]
        == "First fault: rank 1 on n7: SIGKILL ended a process"
    )
    found = verdict(tmp_path, rank_3=handled, rank_1="fine\n")
    assert found["rank"] == 3
