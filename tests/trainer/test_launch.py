"""Launching: what only a real command, torchrun or kill shows."""

import hashlib
import json
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from lockstep.cli import main as lockstep
from lockstep.trainer.extensions.audit import audit
from lockstep.trainer.extensions.launcher import wait_for_threads
from tests.conftest import daily
from tests.jobs import (
    PATIENCE,
    TORCHRUN,
    TRAINER,
    TWO,
    command,
    events,
    finish,
    kill,
    long_run,
    running,
    saved,
    train,
    until,
    warm_torchrun,
)

pytestmark = pytest.mark.timeout(4 * PATIENCE)


def test_demo_reaches_its_accuracy_on_two_processes(
    tmp_path: Path, warm: Path
) -> None:
    """The README's own command: real data, held-out accuracy over 95 %."""
    torchrun = str(warm / "torchrun")
    finish([torchrun, *TWO, *TRAINER, "--run-dir", str(tmp_path)])
    ends = [events(tmp_path, 0, rank)[-1] for rank in (0, 1)]
    assert [end["event"] for end in ends] == ["run_finished"] * 2
    assert ends[0]["accuracy"] > 0.95
    same = "step", "position", "loss", "accuracy", "weights_sha256"
    assert all(ends[0][name] == ends[1][name] for name in same)
    report = audit(tmp_path)
    assert report.proven
    assert report.epochs == 20


def test_one_process_runs_without_torchrun(tmp_path: Path) -> None:
    """The trainer runs in one process without torchrun."""
    settings = "--dataset", "toy", "--max-steps", "3", "--run-dir"
    said = finish([sys.executable, *TRAINER, *settings, str(tmp_path)])
    assert said.startswith("step 3, loss ")
    assert audit(tmp_path).finished


@pytest.mark.parametrize(
    ("settings", "code", "says"),
    [
        ("--max-steps 2", 0, "step 2"),
        ("--fault raise:rank=0,step=1,phase=backward", 1, "InjectedError"),
    ],
)
def test_a_rank_leaves_without_finalizing(
    settings: str, code: int, says: str, tmp_path: Path, warm: Path
) -> None:
    """gloo's threads may still need the interpreter (`launcher.leave`)."""
    arguments = ["--run-dir", str(tmp_path), *settings.split()]
    program = (
        "import atexit, runpy, sys\n"
        "atexit.register(print, 'finalized')\n"
        f"sys.argv[1:] = {arguments}\n"
        "runpy.run_module('lockstep.trainer', run_name='__main__')\n"
    )
    said = finish([str(warm / "python"), "-c", program], code)
    assert says in said
    assert "finalized" not in said


def test_sigkill_of_the_whole_job_resumes_bitwise(tmp_path: Path) -> None:
    """SIGKILL ends the launcher and all ranks between two checkpoints. The next
    launch resumes, and the run ends with the same bits as an uninterrupted
    run."""
    settings = "--max-steps", "120", "--hidden-size", "32", "--run-dir"
    same = {"max_steps": 120, "hidden_size": 32}
    whole = train(2, run_dir=tmp_path / "whole", **same)
    killed = tmp_path / "killed"
    with running([*warm_torchrun(*TWO), *settings, str(killed)]) as job:
        until(lambda: saved(killed), "a checkpoint")
        kill([job, *job.children(recursive=True)])
    again = train(2, run_dir=killed, **same)
    assert again["weights_sha256"] == whole["weights_sha256"]
    report = audit(killed)
    assert report.proven
    assert report.restarts == 1


def test_ranks_end_with_their_launcher(tmp_path: Path) -> None:
    """SIGKILL reaches torchrun alone; its ranks are in other sessions."""
    with running([*TORCHRUN, *TRAINER, *long_run(tmp_path)]) as job:
        until(lambda: saved(tmp_path), "a checkpoint")
        children = job.children(recursive=True)
        assert len(children) >= 2
        job.kill()
        _, alive = psutil.wait_procs(children, timeout=PATIENCE)
        assert not alive


def test_one_job_at_a_time(tmp_path: Path, warm: Path) -> None:
    """The second is refused in one line; SIGKILL frees the lock at once,
    although loader workers outlive their rank."""
    trainer = [*TRAINER, *long_run(tmp_path)]
    with running([sys.executable, *trainer, "--num-workers", "2"]) as job:
        until(lambda: saved(tmp_path), "a checkpoint")
        said = finish([str(warm / "python"), *trainer], code=2)
        assert said.count("\n") == 1
        assert str(tmp_path) in said
        assert "in use by another job" in said
        workers = job.children()
        for worker in workers:
            worker.suspend()  # or it would notice, and end in 5 s
        job.kill()
        job.wait()
        try:
            code, said = command(*long_run(tmp_path), "--stop-at-step", "1")
            assert code == 0, said
            assert workers
            assert all(worker.is_running() for worker in workers)
        finally:
            kill(workers)


def test_a_changed_setting_is_named(tmp_path: Path) -> None:
    same = "--run-dir", str(tmp_path), "--max-steps", "2"
    assert command(*same)[0] == 0
    assert command(*same, "--seed", "7") == (
        2,
        "error: --seed is 7; it must be 0, as when this run began\n",
    )


def test_a_damaged_identity_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"identity": ')
    code, said = command("--run-dir", str(tmp_path))
    assert code == 2
    assert said.count("\n") == 1
    assert str(tmp_path / "run.json") in said


def test_an_unusable_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    place = tmp_path / "file" / "run"
    code, said = command("--run-dir", str(place))
    assert code == 2
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


@pytest.mark.parametrize("settings", daily(REFUSED, "--seed 1"))
def test_rank_zero_alone_complains(
    settings: str, tmp_path: Path, warm: Path
) -> None:
    """Even where it is the last to find out: torchrun ends all ranks as soon
    as one has left, and would end it with its word unsaid."""
    same = "--max-steps", "2", "--run-dir", str(tmp_path / "run")
    assert command(*same)[0] == 0
    late = tmp_path / "late.py"
    late.write_text(LATE)
    job = warm_torchrun(*TWO, script=str(late), python=warm / "python")
    said = finish([*job, *same, *settings.split()], code=1)  # torchrun's own
    assert said.count(REFUSED[settings]) == 1


def test_python_shuts_down_when_other_threads_are_at_rest() -> None:
    """A thread that is at work, as one of gloo's may be when its collective is
    done, is waited for, but not for ever; one that sleeps is not."""
    sleeper = threading.Thread(target=time.sleep, args=(60,), daemon=True)
    worker = threading.Thread(target=hashlib.sha256, args=(bytes(1 << 28),))
    sleeper.start()
    worker.start()
    wait_for_threads(60)
    assert not worker.is_alive()
    assert sleeper.is_alive()
    worker = threading.Thread(target=hashlib.sha256, args=(bytes(1 << 28),))
    worker.start()
    wait_for_threads(0.01)
    assert worker.is_alive()
    worker.join()


def test_audit_command_agrees(
    tmp_path: Path, capsys: pytest.CaptureFixture, warm: Path
) -> None:
    train(1, run_dir=tmp_path, max_steps=5)
    again = "audit", str(tmp_path)
    asked = finish([str(warm / "lockstep"), *again, "--json"])
    report = json.loads(asked)
    assert report["exactly_once"]
    assert report["steps"] == 5
    record = next((tmp_path / "samples").iterdir())
    words = bytearray(record.read_bytes())
    words[5 * 8] ^= 1  # the first sample id
    record.write_bytes(words)
    assert lockstep([*again]) == 1
    assert "NOT proven" in capsys.readouterr().out
    assert lockstep(["audit", str(tmp_path / "nothing")]) == 2
