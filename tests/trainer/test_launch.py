"""Launching: what only a real torchrun, a real kill or a real signal shows."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch.distributed as dist

from lockstep.trainer.__main__ import launch
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.extensions import preemption
from lockstep.trainer.extensions.audit import audit
from lockstep.trainer.extensions.events import read_events
from lockstep.trainer.extensions.record import SampleRecord
from tests import ranks
from tests.faults import after_commit

TRAINER = "-m", "lockstep.trainer"
PATIENCE = 90.0  # seconds until a test gives up waiting for something
pytestmark = pytest.mark.timeout(4 * PATIENCE)  # some start torchrun thrice


def torchrun(world: int, *options: str) -> list[str]:
    launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone")
    return [*launcher, f"--nproc-per-node={world}", *options]


def finish(command: list[str], code: int = 0) -> str:
    """What `command` prints; it must end with `code`."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def events(run_dir: Path, attempt: int, rank: int = 0) -> list[dict[str, Any]]:
    path = run_dir / "events" / f"attempt-{attempt}-rank-{rank}.jsonl"
    return list(read_events(path)) if path.exists() else []


def until(holds: Callable[[], bool], what: str) -> None:
    """Poll until `holds`: other processes have no way to call us."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"not in {PATIENCE} s: {what}"
        time.sleep(0.01)


@contextmanager
def running(command: list[str]) -> Iterator[psutil.Process]:
    """`command` under way; whatever is left of its tree is killed."""
    process = psutil.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        if process.is_running():
            kill([*process.children(recursive=True), process])
        process.wait()


def kill(processes: list[psutil.Process]) -> None:
    """SIGKILL to those that still live."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def saved(run_dir: Path, attempt: int = 0) -> bool:
    names = [event["event"] for event in events(run_dir, attempt)]
    return "checkpoint_saved" in names


def long_run(run_dir: Path) -> list[str]:
    """Settings of a run that will not end by itself before it is killed."""
    return [
        *("--run-dir", str(run_dir), "--max-steps", "100000"),
        *("--checkpoint-every-steps", "20", "--log-every-steps", "1000"),
        *("--hidden-size", "32"),
    ]


def test_demo_reaches_its_accuracy_on_two_processes(tmp_path: Path) -> None:
    """The README's own command: real data, held-out accuracy over 95 %."""
    finish([*torchrun(2), *TRAINER, "--run-dir", str(tmp_path)])
    ends = [events(tmp_path, 0, rank)[-1] for rank in (0, 1)]
    assert [end["event"] for end in ends] == ["run_finished"] * 2
    assert ends[0]["accuracy"] > 0.95
    same = "step", "position", "loss", "accuracy", "weights_sha256"
    assert all(ends[0][name] == ends[1][name] for name in same)
    report = audit(tmp_path)
    assert report.proven
    assert report.epochs == 20


def test_one_process_needs_no_launcher(tmp_path: Path) -> None:
    settings = "--dataset", "toy", "--max-steps", "3", "--run-dir"
    said = finish([sys.executable, *TRAINER, *settings, str(tmp_path)])
    assert said.startswith("step 3, loss ")
    assert audit(tmp_path).finished


def test_a_rank_leaves_without_finalising(tmp_path: Path) -> None:
    """gloo's threads may still need the interpreter (`launcher.leave`)."""
    program = (
        "import atexit, runpy, sys\n"
        "atexit.register(print, 'finalised')\n"
        f"sys.argv[1:] = ['--run-dir', {str(tmp_path)!r}, '--max-steps', '2']\n"
        "runpy.run_module('lockstep.trainer', run_name='__main__')\n"
    )
    assert "finalised" not in finish([sys.executable, "-c", program])


def test_sigkill_of_the_whole_job_resumes_bitwise(tmp_path: Path) -> None:
    """Killed between two checkpoints, launcher and ranks at once."""
    settings = "--max-steps", "120", "--checkpoint-every-steps", "50"
    settings += "--hidden-size", "32", "--run-dir"
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    finish([*torchrun(2), *TRAINER, *settings, str(whole)])
    command = [*torchrun(2), *TRAINER, *settings, str(killed)]
    with running(command) as job:
        until(lambda: saved(killed), "a checkpoint")
        kill([job, *job.children(recursive=True)])
    finish(command)
    last = events(killed, 1)[-1]
    assert last["weights_sha256"] == events(whole, 0)[-1]["weights_sha256"]
    report = audit(killed)
    assert report.proven
    assert report.restarts == 1


def test_ranks_end_with_their_launcher(tmp_path: Path) -> None:
    """SIGKILL reaches torchrun alone; its ranks are in other sessions."""
    with running([*torchrun(2), *TRAINER, *long_run(tmp_path)]) as job:
        until(lambda: saved(tmp_path), "a checkpoint")
        children = job.children(recursive=True)
        assert len(children) >= 2
        job.kill()
        _, alive = psutil.wait_procs(children, timeout=PATIENCE)
        assert not alive


def test_one_job_at_a_time(tmp_path: Path) -> None:
    """The second is refused in one line; SIGKILL frees the lock at once,
    although loader workers outlive their rank."""
    command = [sys.executable, *TRAINER, *long_run(tmp_path)]
    with running([*command, "--num-workers", "2"]) as job:
        until(lambda: saved(tmp_path), "a checkpoint")
        said = finish(command, code=2)
        assert said.count("\n") == 1
        assert str(tmp_path) in said
        assert "in use by another job" in said
        workers = job.children()
        for worker in workers:
            worker.suspend()  # or it would notice, and end in 5 s
        job.kill()
        job.wait()
        try:
            finish([*command, "--stop-at-step", "1"])
            assert workers
            assert all(worker.is_running() for worker in workers)
        finally:
            kill(workers)


BAD = {
    "--micro-batch-size 0": "--micro-batch-size is 0",
    "--precision fp8": "fp32",
    "--dropout 1.5": "--dropout is 1.5",
    "--max-steps 5 --max-epochs 5": "--max-epochs or --max-steps",
    "--global-batch-size 5000 --micro-batch-size 5000": "1437",
    "--global-batch-size 65": "--micro-batch-size 13 --grad-accum-steps 5",
    "--no-such-flag": "--no-such-flag",
}


@pytest.mark.parametrize("settings", BAD)
def test_bad_settings_end_with_code_two(settings: str, tmp_path: Path) -> None:
    command = [sys.executable, *TRAINER, "--run-dir", str(tmp_path / "run")]
    said = finish([*command, *settings.split()], code=2)
    assert BAD[settings] in said
    assert "Traceback" not in said
    assert not (tmp_path / "run" / "run.json").exists()


def test_a_changed_setting_is_named(tmp_path: Path) -> None:
    command = [sys.executable, *TRAINER, "--run-dir", str(tmp_path)]
    finish([*command, "--max-steps", "2"])
    said = finish([*command, "--max-steps", "2", "--seed", "7"], code=2)
    assert said == (
        "error: --seed is 7; it must be 0, as when this run began\n"
    )


def test_a_damaged_identity_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"identity": ')
    command = [sys.executable, *TRAINER, "--run-dir", str(tmp_path)]
    said = finish(command, code=2)
    assert said.count("\n") == 1
    assert str(tmp_path / "run.json") in said


def test_an_unusable_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    place = tmp_path / "file" / "run"
    said = finish([sys.executable, *TRAINER, "--run-dir", str(place)], code=2)
    assert said.count("\n") == 1
    assert str(place) in said


REFUSED = {
    "--clip-norm 0": "--clip-norm is 0.0",  # by the configuration
    "--seed x": "Error parsing --seed",  # by the command line
    "--seed 1": "--seed is 1",  # by the run, once the ranks have met
}
LATE = """
import os, time
from lockstep.trainer import __main__ as trainer
from lockstep.trainer.extensions.launcher import leave
if os.environ["RANK"] == "0":
    time.sleep(1)
    trainer.print = lambda *said, **how: (time.sleep(1), print(*said, **how))
leave(trainer.main())
"""


@pytest.mark.parametrize("settings", REFUSED)
def test_rank_zero_alone_complains(settings: str, tmp_path: Path) -> None:
    """Even where it is the last to find out: torchrun ends all ranks as soon
    as one has left, and would end it with its word unsaid."""
    same = "--max-steps", "2", "--run-dir", str(tmp_path / "run")
    finish([sys.executable, *TRAINER, *same])
    late = tmp_path / "late.py"
    late.write_text(LATE)
    command = [*torchrun(2), str(late), *same, *settings.split()]
    said = finish(command, code=1)  # torchrun's own code
    assert said.count(REFUSED[settings]) == 1


def test_sigterm_saves_and_leaves(tmp_path: Path) -> None:
    """To one rank: all finish the same step, save it and exit; a new launch
    goes on from there."""
    with running([*torchrun(2), *TRAINER, *long_run(tmp_path)]) as job:
        until(lambda: saved(tmp_path), "a checkpoint")
        second = rank_process(job, 1)
        second.send_signal(signal.SIGTERM)
        job.wait(PATIENCE)
    ends = [events(tmp_path, 0, rank)[-1] for rank in (0, 1)]
    assert [end["event"] for end in ends] == ["run_stopped"] * 2
    assert ends[0]["step"] == ends[1]["step"]
    heard = [
        event["step"]
        for rank in (0, 1)
        for event in events(tmp_path, 0, rank)
        if event["event"] == "preempted"
    ]
    assert len(heard) == 2
    assert 1 <= ends[0]["step"] - max(heard) <= 2
    again = [*torchrun(2), *TRAINER, *long_run(tmp_path)]
    finish([*again, "--stop-at-step", str(ends[0]["step"] + 5)])
    restored = [e for e in events(tmp_path, 1) if "restored" in e["event"]]
    assert restored[0]["step"] == ends[0]["step"]
    assert audit(tmp_path).proven


def test_sigterm_alone_exits_with_75(tmp_path: Path) -> None:
    with running([sys.executable, *TRAINER, *long_run(tmp_path)]) as job:
        until(lambda: saved(tmp_path), "a checkpoint")
        job.terminate()
        assert job.wait(PATIENCE) == 75


def stop_for_good_at_step_five(settings: dict[str, Any]) -> None:
    """`launch`, in which rank 1 is stopped as the kernel can stop it."""

    def stop(_: SampleRecord) -> None:
        if dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGSTOP)

    after_commit(5, stop)
    launch(TrainConfig(**settings), ranks.store())


def test_a_hung_rank_is_named_and_the_job_ends(tmp_path: Path) -> None:
    """One rank is stopped for good: the other's watchdog says where it waits,
    leaves its stacks behind and ends it."""
    settings = {"run_dir": tmp_path, "timeout_seconds": 5.0, "hidden_size": 8}
    job = ranks.Ranks(2, stop_for_good_at_step_five, settings)
    try:
        job.processes[0].join(PATIENCE)
        assert job.processes[0].exitcode == 70
    finally:
        job.kill()
    (said,) = (e for e in events(tmp_path, 0) if e["event"] == "hang")
    assert said["phase"] == "backward"
    stack = (tmp_path / "stacks" / "attempt-0-rank-0.txt").read_text()
    assert "in train_step" in stack


def test_sigterm_ends_a_rank_that_can_go_no_further(tmp_path: Path) -> None:
    """The other rank is gone for good, so the step is never finished."""
    settings = {"run_dir": tmp_path, "timeout_seconds": 600, "hidden_size": 8}
    job = ranks.Ranks(2, stop_for_good_at_step_five, settings)
    try:
        stopped = psutil.Process(job.processes[1].pid)
        until(lambda: stopped.status() == psutil.STATUS_STOPPED, "a stop")
        job.processes[0].terminate()
        job.processes[0].join(PATIENCE)
        assert job.processes[0].exitcode == 75
    finally:
        job.kill()


class Gone:
    """The store of a launcher that is no more."""

    def check(self, keys: list[str]) -> bool:
        raise dist.DistNetworkError("gone")


def test_sigterm_is_heard_without_a_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exits: queue.Queue[int] = queue.Queue()
    monkeypatch.setattr(os, "_exit", exits.put)
    monkeypatch.setattr(preemption.time, "sleep", lambda _: None)
    monkeypatch.setattr(preemption, "POLL_SECONDS", 0.01)
    handler = signal.getsignal(signal.SIGTERM)
    try:
        preemption.Preemption(Gone(), 2)  # type: ignore[arg-type]
        threading.Event().wait(0.1)  # until it has asked the store
        os.kill(os.getpid(), signal.SIGTERM)
        assert exits.get(timeout=PATIENCE) == 75
    finally:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, handler)


def test_no_hard_exit_while_a_checkpoint_is_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exits: queue.Queue[int] = queue.Queue()
    graces: queue.Queue[float] = queue.Queue()
    monkeypatch.setattr(os, "_exit", exits.put)
    monkeypatch.setattr(preemption.time, "sleep", graces.put)
    handler = signal.getsignal(signal.SIGTERM)
    try:
        room = preemption.Preemption(dist.HashStore(), 1)
        room.begin("checkpoint")
        os.kill(os.getpid(), signal.SIGTERM)
        assert graces.get(timeout=PATIENCE) == preemption.GRACE_SECONDS
        with pytest.raises(queue.Empty):
            exits.get(timeout=0.2)
        room.end("checkpoint")
        assert exits.get(timeout=PATIENCE) == 75
    finally:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, handler)


def outlive_the_watchdog(settings: dict[str, Any]) -> str:
    """A launch from another program, which has more to do afterwards."""
    last = launch(TrainConfig(**settings), ranks.store())
    for thread in threading.enumerate():
        if thread.name == "watchdog":
            thread.join(PATIENCE)
    return str(last["event"])


def test_the_watchdog_ends_with_the_run(tmp_path: Path) -> None:
    settings = {"run_dir": tmp_path, "timeout_seconds": 5.0, "max_steps": 2}
    said = ranks.run_ranks(1, outlive_the_watchdog, settings)
    assert said == ["run_finished"]


def rank_process(job: psutil.Process, rank: int) -> psutil.Process:
    ours = {
        int(child.environ().get("RANK", -1)): child for child in job.children()
    }
    return ours[rank]


def test_audit_command_agrees(tmp_path: Path) -> None:
    finish(
        [
            *(sys.executable, *TRAINER, "--run-dir", str(tmp_path)),
            *("--max-steps", "5"),
        ]
    )
    command = [sys.executable, "-m", "lockstep.cli", "audit", str(tmp_path)]
    report = json.loads(finish([*command, "--json"]))
    assert report["exactly_once"]
    assert report["steps"] == 5
    record = next((tmp_path / "samples").iterdir())
    words = bytearray(record.read_bytes())
    words[5 * 8] ^= 1  # the first sample id
    record.write_bytes(words)
    assert "NOT proven" in finish(command, code=1)
    finish([*command[:-1], str(tmp_path / "nothing")], code=2)
