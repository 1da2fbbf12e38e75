"""`lockstep explain` names the first fault, and says when it can't."""

from __future__ import annotations

import gzip
import io
import json
import resource
import subprocess
import sys
from ast import literal_eval
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockstep.cli import main
from lockstep.explain import catalog
from lockstep.explain.scan import FLOOD, Scan
from lockstep.explain.verdict import judge
from tests.conftest import ROOT
from tests.explain import log_sets

STEP = "[rank%d]: 2026-11-28 03:02:17,118 INFO train: step %d loss 2.31\n"
CRASH = """\
[rank5]: Traceback (most recent call last):
[rank5]:   File "/srv/run/train.py", line 212, in main
[rank5]:     train(cfg)
[rank0]: 2026-11-28 03:02:18,118 INFO train: step 4022 loss 2.31
[rank5]:   File "/srv/run/collate.py", line 57, in collate
[rank5]:     mask = sample['mask']
[rank5]: KeyError: 'mask'
"""
Out = pytest.CaptureFixture[str]


@pytest.mark.parametrize("name", log_sets.NAMES)
def test_the_first_fault_of_a_log_set_is_named(name: str) -> None:
    """For a log modeled on a public thread, the verdict names the line, the
    rank and the node of the first fault, or says that it isn't there."""
    found = log_sets.verdict(name)
    assert log_sets.wrong(name, found) == [], found["headline"]


def test_every_log_set_has_a_public_source() -> None:
    assert len(log_sets.NAMES) >= 40
    assert len(log_sets.ASIDE) == 20
    assert set(log_sets.ASIDE) < set(log_sets.NAMES)
    for name in log_sets.NAMES:
        assert log_sets.expected(name)["source"].startswith("https://")


def wrote(folder: Path, text: str, name: str = "run.log") -> str:
    """A file with that text."""
    path = folder / name
    path.write_text(text)
    return str(path)


def test_the_verdict_comes_first(tmp_path: Path, capsys: Out) -> None:
    """The first line names the fault and its rank; the line of the user's own
    code, the reason and the evidence follow, and the exit code is 0."""
    log = wrote(tmp_path, STEP % (0, 1) + CRASH)
    assert main(["explain", log]) == 0
    out = capsys.readouterr().out
    assert out.startswith("First fault: rank 5: KeyError: 'mask'\n")
    assert "Confidence: high, because" in out
    assert "/srv/run/collate.py" in out
    assert f"{log}, line 8 at 28 Nov 03:02:18:" in out


def test_json_has_the_same_verdict(tmp_path: Path, capsys: Out) -> None:
    assert main(["explain", wrote(tmp_path, CRASH), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["known"]
    assert (found["rank"], found["confidence"]) == (5, "high")
    assert found["evidence"][0]["line"] == 7


def test_html_is_one_page_without_other_files(
    tmp_path: Path, capsys: Out
) -> None:
    """The page has the verdict, escapes the log's text, and loads nothing."""
    log = wrote(
        tmp_path, CRASH.replace("'mask'", "'<script>alert(1)</script>'")
    )
    page = tmp_path / "verdict.html"
    assert main(["explain", log, "--html", str(page)]) == 0
    text = page.read_text("utf-8")
    assert text.startswith("<!doctype html>")
    assert "First fault: rank 5" in text
    assert "<script" not in text
    assert " src=" not in text
    assert "<link" not in text


def test_standard_input_and_gzip_are_read(
    tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = tmp_path / "run.log.gz"
    packed.write_bytes(gzip.compress(CRASH.encode()))
    assert main(["explain", str(packed)]) == 0
    stdin = io.TextIOWrapper(io.BytesIO(CRASH.encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert main(["explain", "-"]) == 0
    first, second = capsys.readouterr().out.split("First fault: ")[1:]
    assert "run.log.gz, line 7" in first
    assert "standard input, line 7" in second


def test_torchruns_folders_name_the_ranks(tmp_path: Path, capsys: Out) -> None:
    folder = tmp_path / "none_x1" / "attempt_0"
    for rank in range(4):
        (folder / str(rank)).mkdir(parents=True)
        text = CRASH.replace("[rank5]: ", "") if rank == 3 else STEP % (rank, 1)
        wrote(folder / str(rank), text, "stderr.log")
    assert main(["explain", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("First fault: rank 3: KeyError")


def test_nothing_known_asks_four_questions(tmp_path: Path, capsys: Out) -> None:
    """A log without a known message isn't guessed at: exit code 1, and four
    questions with how to answer them."""
    log = wrote(tmp_path, "".join(STEP % (0, n) for n in range(50)))
    assert main(["explain", log]) == 1
    out = capsys.readouterr().out
    assert out.startswith("First fault not found: no known message")
    for number in range(1, 5):
        assert f"  {number}. " in out


def test_only_echoes_are_no_fault(capsys: Out) -> None:
    logs = log_sets.FOLDER / "connection-reset-only" / "logs"
    assert main(["explain", str(logs)]) == 1
    assert "First fault not found" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["none", "missing", "empty", "binary"])
def test_bad_input_is_one_line(kind: str, tmp_path: Path, capsys: Out) -> None:
    """A missing file, a folder without logs, and binary data are named in one
    line, with exit code 2."""
    path = tmp_path / kind
    if kind == "empty":
        path.mkdir()
        (path / "model.pt").write_bytes(b"x")
    elif kind == "binary":
        path.write_bytes(bytes(range(256)) * 40)
    assert main(["explain", *([str(path)] if kind != "none" else [])]) == 2
    captured = capsys.readouterr()
    [line] = captured.err.splitlines()
    assert line.startswith("error: ")
    assert not captured.out


REPORT = """\
Root Cause (first observed failure):
[0]:
  time      : 2026-11-28_03:40:10
  host      : n7
  rank      : 2 (local_rank: 2)
  exitcode  : -9 (pid: 36071) (SIGKILL)
"""
KERNEL = "[Sat Nov 28 %s 2026] Out of memory: Killed process %d (python)\n"


def with_kernel(folder: Path, log: str, time: str, pid: int, out: Out) -> str:
    """What the command prints for torchrun's report and a kernel's line."""
    wrote(folder, REPORT, "run.log")
    wrote(folder, KERNEL % (time, pid), log)
    assert main(["explain", str(folder)]) == 0
    return out.readouterr().out


def test_a_kernel_line_gets_the_rank_of_its_process(
    tmp_path: Path, capsys: Out
) -> None:
    """The kernel's line names a process, and torchrun's report says which rank
    that process was: the verdict has both, and is sure of it if the node and
    the minute agree, too."""
    out = with_kernel(tmp_path, "dmesg-n7.txt", "03:40:09", 36071, capsys)
    assert out.startswith("First fault: rank 2 on n7: Out of memory: Killed")
    assert "Confidence: high, because" in out


@pytest.mark.parametrize(
    ("pid", "doubt"),
    [
        (36071, "the pids agree, but a container has its own pids"),
        (41, "only one process was killed, but no pid confirms it"),
    ],
)
def test_a_rank_by_pid_alone_is_less_certain(
    pid: int, doubt: str, tmp_path: Path, capsys: Out
) -> None:
    """The kernel prints the host's pids and torchrun in a container its own,
    so without the node the verdict says that the rank may be wrong."""
    out = with_kernel(tmp_path, "kernel.txt", "03:40:09", pid, capsys)
    assert out.startswith("First fault: rank 2 on n7: Out of memory: Killed")
    assert "Confidence: medium, because" in out
    assert doubt in out


def test_a_kernel_line_of_another_hour_gets_no_rank(
    tmp_path: Path, capsys: Out
) -> None:
    """The same number at a different time is a different process."""
    out = with_kernel(tmp_path, "dmesg-n7.txt", "03:10:09", 36071, capsys)
    assert not out.startswith("First fault: rank 2 on n7: Out of memory")


def test_last_enqueued_is_called_so(tmp_path: Path, capsys: Out) -> None:
    """The watchdog counts what a rank's CPU enqueued, not what its GPU began;
    the verdict uses its word."""
    line = (
        "[rank%d]:[E1128 03:12:07.4 ProcessGroupNCCL.cpp:2395] [PG ID 0 PG GUID"
        " 0(default_pg) Rank %d] failure detected by watchdog at work sequence"
        " id: 8 PG status: last enqueued work: %d, last completed work: 7\n"
    )
    waits = (
        "[rank%d]:[E1128 03:12:07.4 ProcessGroupNCCL.cpp:757] [Rank %d]"
        " Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8,"
        " OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for"
        " 600042 milliseconds before timing out.\n"
    )
    text = "".join(waits % (r, r) + line % (r, r, 8 + r) for r in range(3))
    main(["explain", wrote(tmp_path, text)])
    out = capsys.readouterr().out
    assert "rank 0: waited for ALLREDUCE number 8, last enqueued 8," in out
    assert "started" not in out


def test_a_folder_of_a_run_has_other_files_too(
    tmp_path: Path, capsys: Out
) -> None:
    """Checkpoints, and binary files without a known ending, are passed over."""
    wrote(tmp_path, CRASH)
    (tmp_path / "events.out").write_bytes(bytes(range(256)) * 40)
    (tmp_path / "model.pt").write_bytes(b"Traceback (most recent call last)")
    assert main(["explain", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["read"]["files"] == 1


@pytest.mark.parametrize(
    ("who", "line"),
    [
        (
            "rank 5",
            '{"time": "2026-11-28T03:02:18Z", "rank": 5, "exc": "Traceback'
            ' (most recent call last):\\n  File \\"/srv/run/collate.py\\", line'
            " 57, in collate\\n    mask = sample['mask']\\nKeyError: 'mask'\"}",
        ),
        (
            "local rank 5",
            '{"message": {"message": "KeyError", "extraInfo": {"py_callstack":'
            ' "Traceback (most recent call last):\\n  File'
            ' \\"/srv/run/collate.py\\", line 57, in collate\\n    x\\n'
            "KeyError: 'mask'\\n\"}}}",
        ),
    ],
    ids=["structured", "error.json"],
)
def test_exceptions_in_json_are_read(
    who: str, line: str, tmp_path: Path, capsys: Out
) -> None:
    """A structured log and torchrun's error file escape the line breaks of an
    exception; it is read all the same, with its rank and frame."""
    folder = tmp_path / "attempt_0" / "5"
    folder.mkdir(parents=True)
    wrote(folder, line + "\n", "error.json")
    assert main(["explain", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"First fault: {who}: KeyError: 'mask'\n")
    assert "/srv/run/collate.py" in out


def test_a_job_that_was_silent_before_its_limit_hung(
    tmp_path: Path, capsys: Out
) -> None:
    """If the ranks logged nothing for hours before the time limit, the verdict
    says that the job may have hung."""
    wrote(tmp_path, STEP % (0, 1), "rank_0.log")
    limit = (
        "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-28T09:02:00"
        " DUE TO TIME LIMIT ***\n"
    )
    wrote(tmp_path, limit, "slurm.out")
    assert main(["explain", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "Confidence: low" in out
    assert "360 minutes older, so the job may have hung" in out


def test_times_order_causes_across_ranks(tmp_path: Path, capsys: Out) -> None:
    """Of two exceptions the earlier is first, whatever the order of files."""
    late = CRASH.replace("03:02:18", "03:09:00")
    late = late.replace("[rank5]", "[rank1]").replace("'mask'", "'late'")
    wrote(tmp_path, late, "a.log")
    wrote(tmp_path, CRASH, "b.log")
    assert main(["explain", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("First fault: rank 5: ")


def test_old_lines_of_a_kernel_are_not_the_cause(
    tmp_path: Path, capsys: Out
) -> None:
    """An Xid from last week, which `dmesg` still shows, isn't blamed for an
    exception of today; one from the minute before is."""
    wrote(tmp_path, STEP % (5, 1) + CRASH, "run.log")
    xid = "[%s 2026] NVRM: Xid (PCI:0000:03:00): 79, pid=1, GPU has fallen off"
    for day, first in (
        ("Sat Nov 21 03:02:10", "rank 5: KeyError"),
        ("Sat Nov 28 03:02:10", "node n7: "),
    ):
        kernel = f"{xid % day} the bus.\n"
        wrote(tmp_path, kernel, "dmesg-n7.txt")
        assert main(["explain", str(tmp_path)]) == 0
        assert capsys.readouterr().out.startswith(f"First fault: {first}")


def test_the_first_fault_is_within_a_step_of_the_wait(capsys: Out) -> None:
    """Rank 0 logs a step every 8 s and reports first, at 03:12:07. Less its
    wait of 600 s, that is 03:02:07: within a step of the kernel's line, which
    `lockstep explain` names as the first fault."""
    log = ROOT / "code/lockstep/experiments/demos/first_fault.log"
    lines = log.read_text("utf-8").splitlines()
    steps = [line.split()[3] for line in lines if " INFO step " in line]
    assert [steps[0][:8], steps[1][:8]] == ["03:00:01", "03:00:09"]
    fault = next(line for line in lines if " kernel: " in line)
    report = next(line for line in lines if "milliseconds" in line)
    waited = int(report.rpartition("ran for ")[2].split()[0]) / 1000
    began = seconds(report.split()[2]) - waited
    assert began == pytest.approx(seconds("03:02:07.384"), abs=0.01)
    assert abs(began - seconds(fault.split()[2])) <= 8
    assert main(["explain", str(log)]) == 0
    verdict = capsys.readouterr().out.splitlines()[0]
    assert verdict.startswith("First fault: node node-7: NVRM: Xid 79")


def seconds(clock: str) -> float:
    """Seconds since midnight."""
    hours, minutes, rest = clock.split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(rest)


def test_a_survived_exception_is_not_the_cause(
    tmp_path: Path, capsys: Out
) -> None:
    """An exception hours before the first echo is passed over for a later
    one."""
    survived = CRASH.replace("'mask'", "'retried'")
    early = "2026-11-27 20:00:00 starting\n" + survived.replace("03:02:18", "")
    echo = (
        "[rank0]:[E1128 03:12:18.1 P.cpp:1] [Rank 0] Some NCCL operations have"
        " failed or timed out. Due to the asynchronous nature of CUDA kernels"
    )
    early = early.replace("2026-11-28 ", "")
    log = wrote(tmp_path, early + STEP % (0, 1) + CRASH + echo + "\n")
    assert main(["explain", log]) == 0
    out = capsys.readouterr().out
    assert out.startswith("First fault: rank 5: KeyError: 'mask'")


def test_a_hang_ends_at_the_time_limit(tmp_path: Path, capsys: Out) -> None:
    """An exception without a time is the cause, and the time limit that ended
    the hanging job isn't."""
    crash = CRASH.replace("2026-11-28 03:02:18,118 ", "")
    limit = (
        "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-28T09:00:00"
        " DUE TO TIME LIMIT ***\n"
    )
    wrote(tmp_path, crash, "run.log")
    wrote(tmp_path, limit, "slurm.out")
    assert main(["explain", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("First fault: rank 5: KeyError")


def test_a_wrapped_exception_is_not_the_first(
    tmp_path: Path, capsys: Out
) -> None:
    """What arose while an exception was handled is an echo of it."""
    first = CRASH.replace("KeyError: 'mask'", "ValueError: no mask")
    second = CRASH.replace("KeyError: 'mask'", "RuntimeError: cleanup failed")
    between = (
        "[rank5]: \n[rank5]: During handling of the above exception,"
        " another exception occurred:\n[rank5]: \n"
    )
    log = wrote(tmp_path, first + between + second)
    assert main(["explain", log]) == 0
    out = capsys.readouterr().out
    assert out.startswith("First fault: rank 5: ValueError")
    assert "echo: RuntimeError" in out
    # A loader's empty queue says nothing; that its worker died does.
    empty = CRASH.replace("KeyError: 'mask'", "_queue.Empty")
    died = "RuntimeError: DataLoader worker (pid 188) is killed by signal:"
    died += " Killed. "
    died = CRASH.replace("KeyError: 'mask'", died)
    log = wrote(tmp_path, empty + between + died)
    assert main(["explain", log]) == 0
    out = capsys.readouterr().out
    assert out.startswith("First fault: rank 5: DataLoader worker")
    assert "echo: _queue.Empty" in out


def test_an_echo_of_the_own_node_points_to_its_rank(
    tmp_path: Path, capsys: Out
) -> None:
    """A loader that found its workers dead doesn't say why: the verdict isn't
    known, but the rank to look at is."""
    died = "RuntimeError: DataLoader worker (pid(s) 188) exited unexpectedly"
    log = wrote(tmp_path, CRASH.replace("KeyError: 'mask'", died))
    assert main(["explain", log]) == 1
    out = capsys.readouterr().out
    assert out.startswith("First fault not found; look at rank 5 first.")
    assert "on its own node" in out


def test_carriage_returns_end_lines(tmp_path: Path, capsys: Out) -> None:
    """A progress bar in front of a message doesn't hide it."""
    bar = "".join(f"\rstep {n} |####    |" for n in range(3000))
    log = wrote(tmp_path, bar + "\r" + CRASH)
    assert main(["explain", log]) == 0
    assert capsys.readouterr().out.startswith("First fault: rank 5: KeyError")


def test_lines_across_blocks_are_found() -> None:
    """A message is found wherever the blocks that were read begin and end."""
    text = (STEP % (0, 1) * 40 + CRASH + STEP % (0, 2) * 40).encode()
    for size in (7, 64, 1000, len(text)):
        scan = Scan(catalog.index())
        scan.begin("log")
        for start in range(0, len(text), size):
            scan.feed(text[start : start + size])
        scan.end()
        found = judge(scan)
        assert found["rank"] == 5
        assert found["evidence"][0]["line"] == 47


def stream(size: int) -> Iterator[bytes]:
    """Blocks of a log: ordinary lines, floods of echoes, and one cause."""
    logs = log_sets.FOLDER / "absent-rank-three" / "logs"
    echo = (logs / "run.log").read_bytes()
    made, number = 0, 0
    while made < size:
        lines = [STEP % (n % 8, number + n) for n in range(8000)]
        block = "".join(lines).encode() + echo * (number % 5)
        if number == 3:
            block += CRASH.encode()
        number += 1
        made += len(block)
        yield block


def peak(megabytes: int) -> tuple[str, int]:
    """Explain a stream: the verdict, and the bytes of memory it took."""
    index = catalog.index()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    scan = Scan(index)
    scan.begin("stream")
    for block in stream(megabytes * 1_000_000):
        scan.feed(block)
    scan.end()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return judge(scan)["headline"], (after - before) * 1024


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "megabytes", [12, pytest.param(250, marks=pytest.mark.slow)]
)
def test_memory_does_not_grow_with_the_log(megabytes: int) -> None:
    """A stream of 12 MB, and one of 250 MB, is explained in less than 32 MB of
    memory, and its one cause is found."""
    program = "from tests.explain.test_explain import peak; print(peak({}))"
    done = subprocess.run(
        [sys.executable, "-c", program.format(megabytes)],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    headline, taken = literal_eval(done.stdout)
    assert headline == "First fault: rank 5: KeyError: 'mask'"
    assert taken < 32_000_000


def test_a_flood_of_one_message_is_counted_not_kept() -> None:
    line = b"[rank1]:[E1128 03:00:00.1 P.cpp:1] [Rank 1] Some NCCL operations"
    line += b" have failed or timed out. Due to the asynchronous nature of"
    line += b" CUDA kernels %d\n"
    scan = Scan(catalog.index())
    scan.begin("flood")
    scan.feed(b"".join(line % n for n in range(2 * FLOOD)))
    scan.end()
    assert len(scan.events) == 1
    assert scan.events[0].count == FLOOD
    assert 0 < scan.dropped <= FLOOD


def test_a_log_that_ends_early_is_pointed_to(
    tmp_path: Path, capsys: Out
) -> None:
    """Where nothing is known, the log that ends minutes before the others is
    named as the one to read first."""
    for rank in range(4):
        last = "03:02" if rank == 2 else "03:12"
        text = STEP % (rank, 1) + (STEP % (rank, 2)).replace("03:02", last)
        wrote(tmp_path, text, f"rank_{rank}.log")
    assert main(["explain", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert out.startswith("First fault not found; look at rank 2 first.")
    assert "rank_2.log ends 600 s before the other logs" in out
