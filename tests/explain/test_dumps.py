"""Flight recorder dumps and py-spy stacks name the rank that isn't there."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lockstep.cli import main
from lockstep.explain import dumps, stacks


def entry(seq: int, op: str = "all_reduce", **more: Any) -> dict[str, Any]:
    """An entry as torch writes it."""
    return {
        "process_group": ("0", "default_pg"),
        "collective_seq_id": seq,
        "p2p_seq_id": 0,
        "op_id": seq,
        "profiling_name": f"nccl:{op}",
        "input_sizes": [[8]],
        "input_dtypes": ["Float"],
        "output_sizes": [[8]],
        "output_dtypes": ["Float"],
        "state": "completed",
        "time_created_ns": 1,
        "record_id": seq,
        "pg_id": 0,
        "timeout_ms": 600000,
        "is_p2p": False,
        "retired": True,
        "frames": [
            {"name": "all_reduce", "filename": "/x/torch/d.py", "line": 1},
            {"name": "train", "filename": "/srv/train.py", "line": 148},
        ],
    } | more


def dump(entries: list[dict[str, Any]], world: int) -> dict[str, Any]:
    """A dump as torch writes it."""
    ranks = json.dumps(list(range(world)))
    group = {"name": "0", "desc": "default_pg", "ranks": ranks}
    return {"version": "2.10", "pg_config": {"0": group}, "entries": entries}


def written(folder: Path, by_rank: dict[int, Any]) -> str:
    """A folder with dumps."""
    for rank, content in by_rank.items():
        (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(content))
    return str(folder)


# Rank 2 of three skips the second collective; then all dump their records.
SKIPPING = """
import os, sys
import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

dist.init_process_group("gloo")
ones = torch.ones(8)
dist.all_reduce(ones)
rank = dist.get_rank()
if rank != 2:
    dist.all_reduce(ones, async_op=True)
with open(f"{sys.argv[1]}/trace_{rank}", "wb") as file:
    file.write(c10d._dump_fr_trace())
os._exit(0)
"""


@pytest.mark.slow
def test_a_recorded_dump_names_the_rank_that_skipped_a_collective(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three gloo ranks record their collectives; rank 2 skips the second, and
    the verdict names rank 2, the operation and the line that called it."""
    script = tmp_path / "skipping.py"
    script.write_text(SKIPPING)
    folder = tmp_path / "dumps"
    folder.mkdir()
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    subprocess.run(
        [*launcher, "--nproc-per-node=3", str(script), str(folder)],
        env=os.environ | {"TORCH_FR_BUFFER_SIZE": "100"},
        capture_output=True,
        check=True,
        timeout=100,
    )
    assert main(["explain", str(folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rank"] == 2
    assert "all_reduce number" in found["headline"]
    [group] = found["dumps"]["groups"]
    assert group["first"]["waited"] == [0, 1]
    assert "skipping.py" in group["first"]["did"][0]["frame"]


def test_a_rank_with_another_operation_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rank 1 gathers where three ranks reduce; torchfrtrace runs underneath."""
    usual = [entry(1), entry(2)]
    odd = [entry(1), entry(2, "all_gather")]
    by_rank = {r: dump(odd if r == 1 else usual, 4) for r in range(4)}
    assert main(["explain", written(tmp_path, by_rank)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("First fault: rank 1: ")
    assert "rank 1 called all_gather" in out
    assert "/srv/train.py:148 train" in out
    assert "torchfrtrace printed" in out
    assert "it failed on these dumps" not in out
    assert "Limits: " in out


def test_a_member_without_a_dump_is_absent() -> None:
    by_rank = {r: dump([entry(7)], 3) for r in (0, 2)}
    found = dumps.compared(by_rank)
    assert found["suspects"] == [1]
    assert found["sure"] == "low"


def test_ranks_that_did_not_complete_are_named() -> None:
    """All ranks have entered a collective, rank 0 has completed it and rank 1
    hasn't: rank 1 is the suspect."""
    late = entry(2, state="started")
    by_rank = {0: dump([entry(1), entry(2)], 2), 1: dump([entry(1), late], 2)}
    first = dumps.compared(by_rank)["groups"][0]["first"]
    assert first["seq"] == 2
    assert first["suspects"] == [1]


def grouped(
    entries: list[dict[str, Any]], groups: dict[str, list[int]]
) -> dict[str, Any]:
    """A dump of a rank that is in several process groups."""
    config = {
        key: {"name": key, "desc": key, "ranks": json.dumps(ranks)}
        for key, ranks in groups.items()
    }
    return {"version": "2.10", "pg_config": config, "entries": entries}


def pending(group: str, seq: int, op: str = "all_reduce") -> dict[str, Any]:
    """A call that hasn't completed."""
    return entry(seq, op, state="scheduled", process_group=(group, group))


def test_a_rank_with_an_empty_dump_is_the_suspect() -> None:
    """Rank 1 dumped no call, and the other ranks wait in one."""
    by_rank = {r: dump([entry(1, state="scheduled")], 3) for r in (0, 2)}
    found = dumps.compared(by_rank | {1: dump([], 3)})
    assert found["suspects"] == [1]
    assert found["sure"] == "medium"
    assert "the dump of rank 1 has no call" in found["why"]
    assert found["groups"][0]["absent"] == []


def test_late_completions_of_gloo_are_no_evidence() -> None:
    """gloo's calls stay "scheduled", and the status of rank 0 hasn't recorded
    the end of call 1: the suspect is rank 2, which didn't join call 2."""
    calls = [
        entry(seq, profiling_name="gloo:all_reduce", state="scheduled")
        for seq in (1, 2)
    ]
    by_rank = {}
    for rank, (last, done) in enumerate([(2, -1), (2, 1), (1, 1)]):
        status = {
            "last_enqueued_collective": last,
            "last_completed_collective": done,
        }
        by_rank[rank] = dump(calls[:last], 3) | {"pg_status": {"0": status}}
    found = dumps.compared(by_rank)
    assert found["suspects"] == [2]
    assert found["groups"][0]["first"]["waited"] == [0, 1]


def test_a_rank_that_waits_for_a_suspect_is_a_victim() -> None:
    """Rank 1 hasn't joined ranks 0 and 1's group, as it waits for rank 2."""
    groups = {"a": [0, 1], "b": [1, 2]}
    by_rank = {
        0: grouped([pending("a", 5)], groups),
        1: grouped([pending("b", 5)], groups),
        2: grouped([], groups),
    }
    assert dumps.compared(by_rank)["suspects"] == [2]


def test_ranks_that_wait_for_each_other_are_both_suspects() -> None:
    """Two ranks call two groups' collectives in opposite orders; rank 2 waits
    for both."""
    groups = {"a": [0, 1], "b": [0, 1], "c": [0, 1, 2]}
    by_rank = {
        0: grouped([pending("a", 1)], groups),
        1: grouped([pending("b", 1)], groups),
        2: grouped([pending("c", 1)], groups),
    }
    assert dumps.compared(by_rank)["suspects"] == [0, 1]


def test_two_ranks_with_different_calls_are_both_suspects() -> None:
    by_rank = {0: dump([entry(1)], 2), 1: dump([entry(1, "all_gather")], 2)}
    assert dumps.compared(by_rank)["suspects"] == [0, 1]


def test_a_rank_that_has_only_queued_less_is_a_guess() -> None:
    """Both ranks wait in call 1, and only rank 0 has queued call 2."""
    first, second = pending("0", 1), pending("0", 2)
    by_rank = {0: dump([first, second], 2), 1: dump([first], 2)}
    found = dumps.compared(by_rank)
    assert found["suspects"] == [1]
    assert found["sure"] == "low"


def test_the_rank_without_a_dump_is_named_before_ranks_that_wait_for_it() -> (
    None
):
    """Rank 1 waits for rank 2, which left no dump, so it didn't join rank 0."""
    groups = {"a": [0, 1], "b": [1, 2]}
    by_rank = {
        0: grouped([pending("a", 5)], groups),
        1: grouped([pending("b", 5)], groups),
    }
    found = dumps.compared(by_rank)
    assert found["suspects"] == [2]
    assert found["sure"] == "low"


def test_a_rank_without_a_dump_is_mentioned_behind_a_suspect() -> None:
    """Rank 1 dumped no call, and rank 2 left no dump: rank 1 is the suspect,
    and the reason adds that perhaps rank 2 is one, too."""
    by_rank = {0: dump([pending("0", 1)], 3), 1: dump([], 3)}
    found = dumps.compared(by_rank)
    assert found["suspects"] == [1]
    assert "perhaps rank 2, too: no dump" in found["why"]


def test_dumps_that_agree_name_nobody() -> None:
    by_rank = {r: dump([entry(1), entry(2)], 2) for r in range(2)}
    assert dumps.compared(by_rank)["suspects"] == []


def test_a_dump_cannot_run_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pickle that would call a function is refused, and nothing runs."""

    class Evil:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "touched",)

    evil = {"version": "2.10", "entries": Evil()}
    folder = tmp_path / "dumps"
    folder.mkdir()
    assert main(["explain", written(folder, {0: evil})]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "not plain data" in line
    assert not (tmp_path / "touched").exists()


def test_a_damaged_dump_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = pickle.dumps(dump([entry(1)], 1))
    (tmp_path / "trace_0").write_bytes(data[: len(data) // 2])
    assert main(["explain", str(tmp_path)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "damaged" in line


STACK = """\
Process {pid}: python train.py
Python v3.12.3 (/opt/venv/bin/python3.12)

Thread {pid} (idle): "MainThread"
{frames}
Thread 99 (idle): "Thread-1"
    wait (threading.py:331)
"""
WAITS = """\
    wait (torch/distributed/distributed_c10d.py:100)
    all_reduce (torch/distributed/distributed_c10d.py:2806)
    step (train.py:148)
    main (train.py:212)"""
LOADS = """\
    read (loader.py:31)
    main (train.py:201)"""


def test_stacks_name_the_process_that_stands_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three of four py-spy dumps stand in all_reduce, and rank 2 stands in its
    loader: the verdict names rank 2 and the line."""
    for rank in range(4):
        frames = LOADS if rank == 2 else WAITS
        text = STACK.format(pid=4000 + rank, frames=frames)
        (tmp_path / f"rank_{rank}.stack").write_text(text)
    assert main(["explain", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("First fault: rank 2 stands at read (loader.py:31)")
    assert "rank 0: waits in all_reduce, from step (train.py:148)" in out


def test_equal_stacks_name_nobody() -> None:
    text = "".join(STACK.format(pid=n, frames=WAITS) for n in range(3))
    assert stacks.compared(stacks.read(text))["odd"] == []
