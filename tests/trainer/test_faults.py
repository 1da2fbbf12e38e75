"""Faults strike where, when and as often as they were told to."""

import errno
import signal
from collections.abc import Iterator
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import nn

from lockstep.trainer.__main__ import launch, main
from lockstep.trainer.config import ConfigError, TrainConfig
from lockstep.trainer.extensions.faults import (
    COMPUTING,
    SAVING,
    Faults,
    InjectedError,
    checked,
    parsed,
)
from lockstep.trainer.extensions.options import Options
from lockstep.trainer.loop import run
from lockstep.trainer.model import DataParallel
from lockstep.trainer.process import Process, joined
from lockstep.trainer.telemetry import Observer, attach, observers
from tests import ranks
from tests.jobs import command

Event = dict[str, Any]
SHORT: Event = {
    "dataset": "toy",
    "global_batch_size": 24,
    "micro_batch_size": 4,
    "max_steps": 6,
    "checkpoint_every_steps": 2,
    "log_every_steps": 1,
    "hidden_size": 4,
    "timeout_seconds": 30.0,
}
ME = Process(0, 2, torch.device("cpu"))


def config(run_dir: Path = Path(), **changed: Any) -> TrainConfig:
    return TrainConfig(**SHORT | {"run_dir": run_dir} | changed)


# What is accepted


@pytest.mark.parametrize(
    "text",
    [
        "kill:rank=1,step=5,phase=backward",
        "slow:rank=0,step=2,phase=sync,ms=40",
        "torn:rank=0,step=4,phase=manifest,attempt=2",
        "flip:rank=1,step=4,phase=prune",
        "nan:rank=0,step=1,phase=optimizer",
    ],
)
def test_a_specification_is_read_and_written_alike(text: str) -> None:
    assert str(checked(text, config(), 2)) == text


def test_the_order_of_its_parts_does_not_matter() -> None:
    one = parsed("slow:phase=h2d,ms=4,step=3,rank=1")
    assert str(one) == "slow:rank=1,step=3,phase=h2d,ms=4"


BAD = {
    "": "the kind must be kill or raise or hang",
    "kil:rank=0,step=1,phase=load": "the kind must be kill or raise or hang",
    "kill": "KIND:rank=R,step=S,phase=P[,attempt=A][,ms=M]",
    "kill:rank=0,step=1": "phase is missing; it must be KIND:rank=R",
    "kill:step=1,phase=load": "rank is missing",
    "kill:rank=0,phase=load": "step is missing",
    "kill:rank=0,step=1,phase=load,": "'' does not fit",
    "kill:rank=0,step=1,phase=load,rank=1": "'rank=1' does not fit",
    "kill:rank=0,step=1,phase=load,kind=hang": "'kind=hang' does not fit",
    "kill:rank=0,step=1,phase=load,node=1": "'node=1' does not fit",
    "kill:rank=-1,step=1,phase=load": "rank must be a whole number",
    "kill:rank=0,step=x,phase=load": "step must be a whole number",
    "kill:rank=0,step=1,phase=load,attempt=1.5": "attempt must be a whole",
    "kill:rank=2,step=1,phase=load": "the rank must be from 0 to 1",
    "kill:rank=0,step=0,phase=load": "the step must be from 1 to 6",
    "kill:rank=0,step=7,phase=load": "the step must be from 1 to 6",
    "kill:rank=0,step=1,phase=eval": "the phase of kill must be load or h2d",
    "kill:rank=0,step=3,phase=write": "what is saved is each step that 2 div",
    "kill:rank=1,step=2,phase=rename": "rename is done by rank 0",
    "torn:rank=0,step=2,phase=load": "the phase of torn must be write or man",
    "torn:rank=0,step=2,phase=fsync": "the phase of torn must be write or man",
    "flip:rank=0,step=2,phase=write": "the phase of flip must be prune",
    "nan:rank=0,step=2,phase=load": "the phase of nan must be forward or",
    "enospc:rank=0,step=2,phase=load": "the phase of enospc must be write or",
    "slow:rank=0,step=2,phase=load": "ms=M, at least 1, goes with slow",
    "slow:rank=0,step=2,phase=load,ms=0": "ms=M, at least 1, goes with slow",
    "kill:rank=0,step=2,phase=load,ms=5": "ms=M, at least 1, goes with slow",
}


@pytest.mark.parametrize("text", BAD)
def test_a_bad_specification_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        checked(text, config(), 2)
    said = str(refused.value)
    assert said.startswith(f"--fault {text}: ")
    assert BAD[text] in said
    assert "\n" not in said


def test_a_gradient_that_fp16_would_skip_is_refused() -> None:
    """The scaler takes it for an overflow: no error, and another result."""
    cfg = config(precision="fp16")
    with pytest.raises(ConfigError, match="it must be phase=forward"):
        checked("nan:rank=0,step=2,phase=sync", cfg, 2)
    checked("nan:rank=0,step=2,phase=forward", cfg, 2)


def test_the_step_at_which_a_launch_stops_is_saved_too() -> None:
    text = "kill:rank=0,step=3,phase=write"
    assert checked(text, config(stop_at_step=3), 2).step == 3


def refused(run_dir: Path) -> tuple[int, str]:
    """The exit code of a launch with a bad fault, and what it prints."""
    bad = "--fault", "kill:rank=1,step=1,phase=load"
    good = "--fault", "slow:rank=0,step=1,phase=load,ms=1"
    said = StringIO()
    with redirect_stderr(said):
        code = main(["--run-dir", str(run_dir), *good, *bad])
    return code, said.getvalue()


def test_a_launch_with_a_bad_fault_trains_nothing(tmp_path: Path) -> None:
    [(code, said)] = ranks.run_ranks(1, refused, tmp_path)
    assert code == 2
    assert said.splitlines() == [
        "error: --fault kill:rank=1,step=1,phase=load: the rank must be from"
        " 0 to 0"
    ]
    assert not (tmp_path / "run.json").exists()


# What it costs


def attached(given: Event, faults: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Which phases the room watches on this rank, once it is attached."""
    launch(TrainConfig(**given), ranks.store(), Options(fault=faults))
    return [sorted(o.phases) for o in observers if isinstance(o, Faults)]


def test_without_faults_the_room_is_not_attached(tmp_path: Path) -> None:
    given = SHORT | {"run_dir": tmp_path, "max_steps": 1}
    assert ranks.run_ranks(1, attached, given, ()) == [[]]


def test_only_the_phases_of_own_faults_are_watched(tmp_path: Path) -> None:
    given = SHORT | {"run_dir": tmp_path, "max_steps": 2}
    faults = (
        "slow:rank=1,step=1,phase=h2d,ms=1",
        "slow:rank=1,step=2,phase=write,ms=1",
        "kill:rank=1,step=1,phase=load,attempt=3",
    )
    watched = ranks.run_ranks(2, attached, given, faults)
    assert watched == [[[]], [["checkpoint", "h2d", "write"]]]


# When it strikes


class Log(Observer):
    """Phases that begin, and events."""

    phases = ("backward", "optimizer", *SAVING)

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.events: list[Event] = []

    def begin(self, phase: str) -> None:
        self.seen.append(phase)

    def event(self, record: Event) -> None:
        self.seen.append(record["event"])
        self.events.append(record)


@pytest.fixture
def log() -> Iterator[Log]:
    yield Log()
    attach()


def room(
    run_dir: Path, log: Log, *texts: str, rank: int = 0, attempt: int = 0
) -> Faults:
    """The room, attached, with a model whose gradients it may spoil."""
    strategy = DataParallel()
    strategy.module = nn.Linear(2, 2)
    me = Process(rank, 2, torch.device("cpu"))
    faults = Faults(texts, config(run_dir), me, attempt, strategy)
    attach(log, faults)
    return faults


def traced(given: Event, *texts: str) -> list[str]:
    """What a run on one rank did, and when it was struck."""
    log, strategy = Log(), DataParallel()
    with joined(30, ranks.store()) as me:
        cfg = TrainConfig(**given).for_launch(me.world_size, {})
        attach(log, Faults(texts, cfg, me, 0, strategy))
        run(cfg, me, 0, strategy)
    return log.seen


def test_a_last_checkpoint_without_room_ends_in_one_line(
    tmp_path: Path,
) -> None:
    settings = "--dataset", "toy", "--max-steps", "4", "--run-dir"
    full = "--fault", "enospc:rank=0,step=4,phase=write"
    code, said = command(*settings, str(tmp_path), *full)
    assert code == 1
    assert said.splitlines()[-1] == (
        "error: [Errno 28] No space left on device; what is published stays,"
        " and the next launch goes on from it"
    )
    assert "Traceback" not in said


def test_sync_comes_after_the_last_gradient_of_the_step(tmp_path: Path) -> None:
    """Of its last micro-batch: here there are six."""
    fault = "slow:rank=0,step=2,phase=sync,ms=1"
    given = SHORT | {"run_dir": tmp_path}
    [seen] = ranks.run_ranks(1, traced, given, fault)
    before, after = seen[: seen.index("fault")], seen[seen.index("fault") :]
    assert before.count("backward") == 12
    assert before.count("optimizer") == 1
    assert after[1] == "optimizer"
    assert after.count("fault") == 1


def raised(given: Event, options: Options) -> str:
    """Why a launch failed on this rank."""
    try:
        launch(TrainConfig(**given), ranks.store(), options)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
def test_what_is_struck_in_sync_is_reduced(
    strategy: Literal["ddp", "fsdp2"], tmp_path: Path
) -> None:
    """One rank's NaN, before the all-reduce, is every rank's after it."""
    options = Options(strategy, fault=("nan:rank=1,step=3,phase=sync",))
    said = ranks.run_ranks(2, raised, SHORT | {"run_dir": tmp_path}, options)
    assert said == ["FloatingPointError: step 3: gradient norm nan"] * 2


@pytest.mark.parametrize("phase", COMPUTING)
def test_a_step_is_the_one_under_way(
    phase: str, tmp_path: Path, log: Log
) -> None:
    faults = room(tmp_path, log, f"raise:rank=0,step=3,phase={phase}")
    name = "backward" if phase == "sync" else phase

    def pass_through() -> None:
        faults.begin(name)
        for weight in faults.strategy.module.parameters():
            faults.gradient(weight)

    faults.event({"event": "checkpoint_restored", "step": 1})
    pass_through()
    faults.committed(2, 0, [])
    with pytest.raises(InjectedError):
        pass_through()


@pytest.mark.parametrize("phase", SAVING)
def test_a_stage_is_of_the_step_that_is_saved(
    phase: str, tmp_path: Path, log: Log
) -> None:
    """Although the loop, with a thread to save, may be far beyond it, and ask
    for the next save in vain."""
    faults = room(tmp_path, log, f"raise:rank=0,step=4,phase={phase}")
    faults.committed(2, 0, [])
    faults.begin("checkpoint")
    faults.committed(4, 0, [])
    faults.begin("checkpoint")
    faults.begin(phase)
    faults.event({"event": "checkpoint_skipped", "step": 4})
    faults.begin(phase)
    ended = {"event": "checkpoint_saved", "step": 2, "checkpoint": "step-2"}
    faults.event(ended)
    faults.begin("checkpoint")
    with pytest.raises(InjectedError):
        faults.begin(phase)


def test_it_strikes_once_in_a_run(tmp_path: Path, log: Log) -> None:
    """An event tells first; a file remembers, across attempts."""
    text = "raise:rank=0,step=1,phase=load"
    with pytest.raises(InjectedError, match=text):
        room(tmp_path, log, text).begin("load")
    [said] = log.events
    assert said["event"] == "fault"
    kept = "fault", "kind", "step", "phase", "ms"
    assert [said[k] for k in kept] == [text, "raise", 1, "load", None]
    assert [path.name for path in (tmp_path / "faults").iterdir()] == [text]
    room(tmp_path, log, text, attempt=1).begin("load")
    assert len(log.events) == 1


def test_it_is_remembered_before_it_strikes(
    tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill leaves no time for anything after it."""
    killed: list[tuple[int, int, int]] = []

    def kill(_: int, number: int) -> None:
        remembered = len([*(tmp_path / "faults").iterdir()])
        killed.append((number, remembered, len(log.events)))

    monkeypatch.setattr("os.kill", kill)
    faults = "kill:rank=0,step=1,phase=load", "sigterm:rank=0,step=1,phase=h2d"
    struck = room(tmp_path, log, *faults)
    struck.begin("load")
    struck.begin("h2d")
    assert killed == [(signal.SIGKILL, 1, 1), (signal.SIGTERM, 2, 2)]


def test_another_rank_and_another_attempt_are_spared(
    tmp_path: Path, log: Log
) -> None:
    text = "raise:rank=1,step=1,phase=load,attempt=2"
    room(tmp_path, log, text, rank=0, attempt=2).begin("load")
    room(tmp_path, log, text, rank=1, attempt=1).begin("load")
    assert log.events == []
    with pytest.raises(InjectedError):
        room(tmp_path, log, text, rank=1, attempt=2).begin("load")


def test_what_is_over_is_not_refused_where_ranks_are_fewer(
    tmp_path: Path, log: Log
) -> None:
    """A job that lost a node goes on with the command that it began with."""
    past = "kill:rank=1,step=1,phase=load,attempt=0"
    text = "raise:rank=1,step=1,phase=load"
    with pytest.raises(InjectedError):
        room(tmp_path, log, text, rank=1).begin("load")
    alone = Process(0, 1, torch.device("cpu"))
    for texts in ([text], [past]):
        Faults(tuple(texts), config(tmp_path), alone, 1, DataParallel())
    for never in ("kill:rank=1,step=2,phase=load", past.replace("=0", "=1")):
        with pytest.raises(ConfigError, match="the rank must be from 0 to 0"):
            Faults((never,), config(tmp_path), alone, 1, DataParallel())


# What it does


@pytest.mark.parametrize("phase", SAVING)
def test_a_full_disk_is_what_it_says(
    phase: str, tmp_path: Path, log: Log
) -> None:
    faults = room(tmp_path, log, f"enospc:rank=0,step=2,phase={phase}")
    faults.committed(2, 0, [])
    faults.begin("checkpoint")
    with pytest.raises(OSError, match="No space left") as full:
        faults.begin(phase)
    assert full.value.errno == errno.ENOSPC


@pytest.mark.parametrize("phase", ["write", "manifest"])
def test_torn_leaves_half_of_the_file(phase: str, tmp_path: Path) -> None:
    fault = f"torn:rank=0,step=2,phase={phase}"
    given = SHORT | {"run_dir": tmp_path}
    with pytest.raises(ranks.RankError, match="died"):
        ranks.run_ranks(1, raised, given, Options(fault=(fault,)))
    tmp = tmp_path / "checkpoints" / "tmp"
    torn = {path.name: path.stat().st_size for path in tmp.iterdir()}
    name = "manifest.json" if phase == "manifest" else "rank-0.pt"
    assert (set(torn) == {name}) == (phase == "write")
    ranks.run_ranks(1, raised, given, Options(fault=(fault,)))
    whole = tmp.with_name("step-00000002") / name
    assert torn[name] == pytest.approx(whole.stat().st_size / 2, abs=1)


def test_flip_changes_one_byte_of_what_is_published(
    tmp_path: Path, log: Log
) -> None:
    """The seed chooses which: the same in every run, by its specification."""
    contents = {"a": b"abc" * 99, "b": b"", "c": b"\xff" * 999}
    changes = []
    for name in ("one", "two"):
        folder = tmp_path / name / "checkpoints" / "step-00000004"
        folder.mkdir(parents=True)
        for file, content in contents.items():
            (folder / file).write_bytes(content)
        faults = room(tmp_path / name, log, "flip:rank=0,step=4,phase=prune")
        saved = {"event": "checkpoint_saved", "checkpoint": folder.name}
        for step in (2, 4):
            faults.event(saved | {"step": step})
        changes.append(
            [
                (file, at)
                for file, content in contents.items()
                for at, byte in enumerate((folder / file).read_bytes())
                if byte != content[at]
            ]
        )
    assert len(changes[0]) == 1
    assert changes[0] == changes[1]


@pytest.mark.parametrize("phase", ["backward", "optimizer"])
def test_nan_spoils_this_ranks_gradients(
    phase: str, tmp_path: Path, log: Log
) -> None:
    faults = room(tmp_path, log, f"nan:rank=0,step=1,phase={phase}")
    faults.event({"event": "run_started"})
    module = faults.strategy.module
    for struck in (True, False):
        faults.begin("backward")
        module(torch.ones(1, 2)).sum().backward()
        if phase == "optimizer":
            faults.begin(phase)
        spoiled = [w.grad.isnan().any() for w in module.parameters()]
        assert any(spoiled) == struck
        module.zero_grad()


def test_nan_spoils_one_forward_pass(tmp_path: Path, log: Log) -> None:
    faults = room(tmp_path, log, "nan:rank=0,step=1,phase=forward")
    module = faults.strategy.module
    for struck in (True, False):
        faults.begin("forward")
        assert module(torch.ones(1, 2)).isnan().all() == struck


def test_hang_sleeps_for_good_and_slow_for_a_while(
    tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise TimeoutError

    monkeypatch.setattr("time.sleep", sleep)
    with pytest.raises(TimeoutError):
        room(tmp_path, log, "hang:rank=0,step=1,phase=load").begin("load")
    assert slept == [3600] * 3
    slept.clear()
    text = "slow:rank=0,step=1,phase=load,ms=250"
    room(tmp_path, log, text).begin("load")
    assert slept == [0.25]
