"""Hung, told to leave, killed: how a launch ends, and another one goes on."""

import ctypes
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
import torch.distributed as dist

from lockstep.trainer.extensions import preemption, watchdog
from lockstep.trainer.extensions.audit import audit
from lockstep.trainer.extensions.launcher import untouched
from lockstep.trainer.extensions.preemption import Preemption
from lockstep.trainer.extensions.record import SampleRecord
from lockstep.trainer.extensions.timers import PhaseTimers
from lockstep.trainer.extensions.watchdog import Watchdog
from lockstep.trainer.model import DataParallel
from lockstep.trainer.telemetry import observers
from tests import jobs, ranks
from tests.conftest import daily
from tests.jobs import (
    PATIENCE,
    TRAINER,
    TWO,
    events,
    finish,
    long_run,
    only,
    rank_process,
    running,
    saved,
    until,
    warm_torchrun,
)
from tests.rank_faults import after_commit, in_phase

pytestmark = pytest.mark.timeout(4 * PATIENCE)
# Seconds that a busy machine does not take for a phase, as it does 5.
SMALL = {"hidden_size": 8, "timeout_seconds": 10.0}


# Hung


def sleep_on() -> None:
    time.sleep(10 * PATIENCE)


def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def keep_pythons_lock() -> None:
    """C code that never returns: PyDLL, unlike CDLL, does not let go."""
    ctypes.PyDLL(None).sleep(int(10 * PATIENCE))


# What rank 1 does in the forward pass of step 5, its exit code (None: it is
# there still), and whether it can answer.
HANGS: dict[Callable[[], None], tuple[int | None, bool]] = {
    sleep_on: (watchdog.EXIT_CODE, True),
    stop: (None, False),
    keep_pythons_lock: (1, False),
}


def hang(
    settings: dict[str, Any], how: Callable[[], None], answers: bool
) -> None:
    """`launch`; a rank 1 that can answer is alone to find it out."""
    watchdog.WAIT_SECONDS = 2.0  # for one that never answers
    if os.environ["RANK"] == "1":
        in_phase("forward", 5, how)
    elif answers:
        patiently(Watchdog)
    else:  # it finds out late, and rank 1 must not have left by then
        watchdog.LOOK_SECONDS = 1.0
    jobs.work(settings)


def patiently(room: type[Watchdog]) -> None:
    """From now on in this process, no hang is ever found."""
    init = room.__init__

    def other(self: Watchdog, *given: Any) -> None:
        init(self, *given[:4], 10 * PATIENCE, *given[5:])

    room.__init__ = other  # type: ignore[assignment,method-assign]


@pytest.mark.parametrize("how", daily(HANGS, keep_pythons_lock))
def test_hang_is_found_and_every_rank_logs_where(
    how: Callable[[], None], tmp_path: Path
) -> None:
    """One rank hangs. Every rank that can writes its stacks, names its own
    phase and the other ranks' last phases, and ends itself without a signal
    from outside."""
    code, answers = HANGS[how]
    settings = SMALL | {"run_dir": tmp_path}
    job = ranks.Ranks(2, hang, settings, how, answers)
    try:
        for process in job.processes if code else job.processes[:1]:
            process.join(PATIENCE)
        codes = [process.exitcode for process in job.processes]
        assert codes == [watchdog.EXIT_CODE, code]
    finally:
        job.kill()
    last = events(tmp_path, 0)[-2:]
    assert [event["event"] for event in last] == [
        "hang_elsewhere" if answers else "hang",
        "hang_phases",
    ]
    assert last[0]["phase"] == "backward"
    if answers:
        assert (last[0]["found_by"], last[0]["found_in"]) == (1, "forward")
        assert last[1]["phases"] == {"0": "backward", "1": "forward"}
        assert last[1]["silent"] == []
        (found,) = only("hang", tmp_path, 0, 1)
        assert (found["rank"], found["phase"]) == (1, "forward")
    else:
        assert last[1]["phases"] == {"0": "backward"}
        assert last[1]["silent"] == [1]
    stacks = [
        (tmp_path / "stacks" / f"attempt-0-rank-{rank}.txt").read_text()
        for rank in (0, 1)
    ]
    assert "in train_step" in stacks[0]
    if how is stop:  # it runs no code at all
        assert stacks[1] == ""
    else:
        assert f"in {how.__name__}" in stacks[1]


def stuck(*_: object) -> None:
    threading.Event().wait()


def broken(*_: object) -> None:
    raise dist.DistNetworkError("gone")


class Store:
    """A store of which every question ends as it is told."""

    def __init__(self, answer: Callable[..., Any]) -> None:
        self.check = self.compare_set = self.set = answer

    def clone(self) -> "Store":
        return self


def hang_alone(run_dir: Path, store: Callable, disk: Callable) -> None:
    """A watchdog, of two ranks, that finds a hang at once."""
    watchdog.emit = disk
    watchdog.WAIT_SECONDS = 0.2
    timers = PhaseTimers(torch.device("cpu"), DataParallel())
    room = run_dir, 0, 0, 2, 0.1, timers, Store(store), ExitStack()
    Watchdog(*room)  # type: ignore[arg-type]
    stuck()


@pytest.mark.parametrize(
    ("store", "disk"), [(broken, print), (stuck, print), (broken, stuck)]
)
def test_a_hang_ends_whatever_else_hangs(
    store: Callable, disk: Callable, tmp_path: Path
) -> None:
    """The store is gone; or does not answer; or the disk does not."""
    job = ranks.Ranks(1, hang_alone, tmp_path, store, disk)
    try:
        job.processes[0].join(PATIENCE)
        assert job.processes[0].exitcode == watchdog.EXIT_CODE
    finally:
        job.kill()


def outlive_the_watchdog(settings: dict[str, Any], at: int) -> list[str]:
    """A launch from another program, which has more to do afterwards."""
    after_commit(at, broken)
    try:
        jobs.work(settings)
    except dist.DistNetworkError:
        assert at == 1
    else:
        assert at == 10
    for thread in threading.enumerate():
        if thread.name == "watchdog":
            thread.join(PATIENCE)
    return [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize("at", [1, 10])
def test_the_watchdog_ends_with_the_run(at: int, tmp_path: Path) -> None:
    """However that ends: by an error after the first step, or the last one."""
    patient = {"timeout_seconds": PATIENCE}  # nothing hangs here
    settings = SMALL | patient | {"run_dir": tmp_path, "max_steps": 2}
    (threads,) = ranks.run_ranks(1, outlive_the_watchdog, settings, at)
    assert "watchdog" not in threads
    assert not list((tmp_path / "stacks").iterdir())


# Told to leave


def test_sigterm_saves_and_leaves(tmp_path: Path) -> None:
    """To one rank: all finish the same step, save it and exit; a new launch
    goes on from there."""
    command = warm_torchrun(*TWO)
    with running([*command, *long_run(tmp_path)]) as job:
        until(lambda: saved(tmp_path), "a checkpoint")
        told = rank_process(job, 1)
        assert told
        told.send_signal(signal.SIGTERM)
        assert job.wait(PATIENCE) == 1  # torchrun's own code
    step = stopped_together(tmp_path, 2)
    same = {"run_dir": tmp_path, "max_steps": 100000, "hidden_size": 32}
    again = jobs.train(2, stop_at_step=step + 5, **same)
    assert again["step"] == step + 5
    (restored,) = only("checkpoint_restored", tmp_path, 1)
    assert restored["step"] == step
    assert audit(tmp_path).proven


def stopped_together(run_dir: Path, world: int) -> int:
    """All ranks heard of a stop, and made the same step their last, one or two
    after that."""
    ends = [events(run_dir, 0, rank)[-1] for rank in range(world)]
    assert [end["event"] for end in ends] == ["run_stopped"] * world
    (step,) = {end["step"] for end in ends}
    heard = [
        event["step"]
        for rank in range(world)
        for event in only("preempted", run_dir, 0, rank)
    ]
    assert len(heard) == world
    assert 1 <= step - max(heard) <= 2
    return int(step)


def be_told(settings: dict[str, Any], when: dict[int, int]) -> dict[str, Any]:
    """`launch`, in which rank r gets SIGTERM after step `when[r]`."""

    def tell(_: SampleRecord) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    after_commit(when.get(int(os.environ["RANK"]), -1), tell)
    return jobs.work(settings)


@pytest.mark.weekly
def test_sigterm_to_some_of_four_at_different_steps(tmp_path: Path) -> None:
    """One stop for all, whoever is told and when; nothing else is lost."""
    same = SMALL | {"timeout_seconds": 30.0, "max_steps": 100000}
    same |= {"global_batch_size": 32, "micro_batch_size": 8}
    told = same | {"run_dir": tmp_path / "told"}
    ranks.run_ranks(4, be_told, told, {1: 3, 3: 3, 2: 4})
    same["stop_at_step"] = stopped_together(tmp_path / "told", 4) + 3
    whole = jobs.train(4, **same | {"run_dir": tmp_path / "whole"})
    again = jobs.train(4, **same | {"run_dir": tmp_path / "told"})
    assert again["weights_sha256"] == whole["weights_sha256"]
    assert audit(tmp_path / "told").proven


def test_sigterm_alone_exits_with_75(tmp_path: Path, warm: Path) -> None:
    with running([str(warm / "python"), *TRAINER, *long_run(tmp_path)]) as job:
        until(lambda: saved(tmp_path), "a checkpoint")
        job.terminate()
        assert job.wait(PATIENCE) == 75


def heard() -> None:
    """Wait until this rank knows of the signal: its thread's word, not ours."""
    (room,) = (o for o in observers if isinstance(o, Preemption))
    assert room.alert.wait(PATIENCE)


def lose_rank_3(settings: dict[str, Any]) -> None:
    """`launch`, in which rank 3 is gone after the others have been told."""
    preemption.GRACE_SECONDS = 10 * PATIENCE
    last = os.environ["RANK"] == "3"

    def act(_: SampleRecord) -> None:
        if not last:
            os.kill(os.getpid(), signal.SIGTERM)
            heard()
        dist.barrier()
        if last:
            os.kill(os.getpid(), signal.SIGKILL)

    after_commit(5, act)
    jobs.work(settings)


def test_a_collective_error_after_sigterm_leaves_at_once(
    tmp_path: Path,
) -> None:
    """The step will never be finished, so there is no grace to wait for."""
    settings = SMALL | {"run_dir": tmp_path, "timeout_seconds": 600.0}
    job = ranks.Ranks(4, lose_rank_3, settings)
    try:
        for process in job.processes:
            process.join(PATIENCE)
        assert [p.exitcode for p in job.processes] == [75, 75, 75, -9]
    finally:
        job.kill()
    for rank in range(3):
        assert events(tmp_path, 0, rank)[-1]["event"] == "preempted_midway"


def stop_rank_1(settings: dict[str, Any]) -> None:
    if os.environ["RANK"] == "1":
        in_phase("forward", 5, stop)
    jobs.work(settings)


def test_sigterm_ends_a_rank_that_can_go_no_further(tmp_path: Path) -> None:
    """The other rank never finishes its step, and no collective fails."""
    settings = SMALL | {"run_dir": tmp_path, "timeout_seconds": 600.0}
    job = ranks.Ranks(2, stop_rank_1, settings)
    try:
        stopped = psutil.Process(job.processes[1].pid)
        until(lambda: stopped.status() == psutil.STATUS_STOPPED, "a stop")
        job.processes[0].terminate()
        job.processes[0].join(PATIENCE)
        assert job.processes[0].exitcode == 75
    finally:
        job.kill()


@pytest.fixture
def exits(monkeypatch: pytest.MonkeyPatch) -> Iterator[queue.Queue[int]]:
    """The codes this process would have ended with, had it been let."""
    codes: queue.Queue[int] = queue.Queue()
    monkeypatch.setattr(os, "_exit", codes.put)
    handler = signal.getsignal(signal.SIGTERM)
    yield codes
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, handler)


def test_sigterm_is_heard_without_a_store(
    exits: queue.Queue[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the store of a launcher that is no more has been asked in vain."""
    asked = threading.Event()

    def gone(keys: list[str]) -> None:
        asked.set()
        broken()

    monkeypatch.setattr(preemption.time, "sleep", lambda _: None)
    Preemption(Store(gone), 2, ExitStack())  # type: ignore[arg-type]
    assert asked.wait(PATIENCE)
    os.kill(os.getpid(), signal.SIGTERM)
    assert exits.get(timeout=PATIENCE) == 75


def test_sigterm_waits_no_longer_for_slow_steps(
    exits: queue.Queue[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step after the current one is to be the last, and the grace since
    the signal ends within it: the rank leaves, although nothing hangs."""
    over = threading.Event()
    monkeypatch.setattr(preemption.time, "sleep", lambda _: over.wait())
    room = Preemption(dist.HashStore(), 1, ExitStack())
    os.kill(os.getpid(), signal.SIGTERM)
    assert room.alert.wait(PATIENCE)
    assert not room.wants_stop(3)
    over.set()
    assert exits.get(timeout=PATIENCE) == 75
    assert room.wants_stop(4)  # it would have saved


def test_no_hard_exit_while_a_checkpoint_is_published(
    exits: queue.Queue[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A SIGTERM that comes while a checkpoint is published waits until it is,
    and only then exits, with code 75."""
    graces: queue.Queue[float] = queue.Queue()
    monkeypatch.setattr(preemption.time, "sleep", graces.put)
    room = Preemption(dist.HashStore(), 1, ExitStack())
    room.begin("checkpoint")
    os.kill(os.getpid(), signal.SIGTERM)
    assert graces.get(timeout=PATIENCE) == preemption.GRACE_SECONDS
    with pytest.raises(queue.Empty):
        exits.get(timeout=0.2)
    room.end("checkpoint")
    assert exits.get(timeout=PATIENCE) == 75


# Killed


DYING = """
import os, signal
from lockstep.trainer.__main__ import main
from lockstep.trainer.extensions.launcher import leave
from tests.rank_faults import after_commit
restart = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
if os.environ["RANK"] == str(restart):  # 0, then 1, then nobody
    kill = lambda _: os.kill(os.getpid(), signal.SIGKILL)
    after_commit(15 + 10 * restart, kill)
if code := main():
    leave(code)
"""


def test_torchrun_restarts_a_job_whose_ranks_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm: Path
) -> None:
    """Twice in a row, another rank each time."""
    same = {"max_steps": 40, "hidden_size": 32, "checkpoint_every_steps": 10}
    whole = jobs.train(2, run_dir=tmp_path / "whole", **same)
    dying = tmp_path / "dying.py"
    dying.write_text(DYING)
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    settings = ["--run-dir", str(tmp_path / "killed")]
    for name, value in same.items():
        settings += [f"--{name.replace('_', '-')}", str(value)]
    restarted = *TWO, "--max-restarts=3"
    python = warm / "python"
    job = warm_torchrun(*restarted, script=str(dying), python=python)
    finish([*job, *settings])
    last = events(tmp_path / "killed", 2)[-1]
    assert last["weights_sha256"] == whole["weights_sha256"]
    went_on = [
        only("checkpoint_restored", tmp_path / "killed", attempt)[0]["step"]
        for attempt in (1, 2)
    ]
    assert went_on == [10, 20]
    assert audit(tmp_path / "killed").proven


def meet(address: tuple[str, int], late: bool) -> float:
    """All ranks meet in a store that was there before them, and add ones."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    limit = timedelta(seconds=PATIENCE)
    store: dist.Store = dist.TCPStore(*address, timeout=limit)
    if late and rank == 0:
        store.wait(["go"])
    store = untouched(store, rank, world)
    dist.init_process_group(
        "gloo", store=store, rank=rank, world_size=world, timeout=limit
    )
    dist.all_reduce(total := torch.ones(1))
    return total.item()


def meet_and_die(*args: Any) -> None:
    meet(*args)
    dist.barrier()
    os.kill(os.getpid(), signal.SIGKILL)


def test_the_dead_ranks_of_a_launch_lie_in_its_store() -> None:
    """A rank of the next launch that comes first would find the address of one
    that is dead, and try it for over a minute. It waits for the new one, in a
    part of the store that nobody has touched."""
    server = dist.TCPStore("127.0.0.1", 0, is_master=True)
    address = "127.0.0.1", server.port
    first = ranks.Ranks(2, meet_and_die, address, False)
    with pytest.raises(ranks.RankError, match=r"rank \d died"):
        first.results()
    signed = server.get("rank-1")
    second = ranks.Ranks(2, meet, address, True)
    until(lambda: server.get("rank-1") != signed, "rank 1")
    server.set("go", "")
    assert second.results(2 * PATIENCE) == [2, 2]
