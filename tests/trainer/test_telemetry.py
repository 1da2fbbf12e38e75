"""What happened: phases, events on every rank, and where the time went."""

import io
import json
import os
import pty
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from lockstep.trainer.__main__ import launch
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.extensions.events import EventLog, read_events
from lockstep.trainer.extensions.progress import ProgressBar
from lockstep.trainer.extensions.timers import PhaseTimers
from lockstep.trainer.loop import run
from lockstep.trainer.model import DataParallel
from lockstep.trainer.process import joined
from lockstep.trainer.telemetry import Observer, attach, emit, phase
from tests import ranks

Event = dict[str, Any]
SHORT: Event = {
    "dataset": "toy",
    "global_batch_size": 32,
    "max_steps": 8,
    "checkpoint_every_steps": 3,
    "log_every_steps": 2,
    "hidden_size": 8,
    "timeout_seconds": 30.0,
}
PHASES = {"load", "h2d", "forward", "backward", "optimizer"}


class Notes(Observer):
    """Writes down what it is told."""

    phases = ("outer", "inner")

    def __init__(self, name: str, notes: list[str]) -> None:
        self.name, self.notes = name, notes

    def begin(self, phase: str) -> None:
        self.notes.append(f"{self.name}: begin {phase}")

    def end(self, phase: str) -> None:
        self.notes.append(f"{self.name}: end {phase}")

    def event(self, record: Event) -> None:
        self.notes.append(f"{self.name}: {record['event']}")
        record[self.name] = len(self.notes)


@pytest.fixture
def notes() -> Iterator[list[str]]:
    """What two observers, a and b, are told."""
    said: list[str] = []
    attach(Notes("a", said), Notes("b", said))
    yield said
    attach()


def test_phases_nest_and_observers_leave_in_reverse(notes: list[str]) -> None:
    with phase("outer"), phase("inner"):
        notes.append("body")
    begins = [f"{o}: begin {p}" for p in ("outer", "inner") for o in "ab"]
    ends = [f"{o}: end {p}" for p in ("inner", "outer") for o in "ba"]
    assert notes == [*begins, "body", *ends]


def test_a_room_that_watches_phases_names_them() -> None:
    """One that does not would be told of none, and never know."""
    rooms = [
        room
        for room in Observer.__subclasses__()
        if room.__module__.startswith("lockstep.trainer.extensions.")
    ]
    assert PhaseTimers in rooms
    for room in rooms:
        assert ("begin" in vars(room)) == bool(room.phases), room


def test_a_phase_ends_although_its_body_raises(notes: list[str]) -> None:
    caught = pytest.raises(KeyError, match="mine")
    with caught, phase("outer"), phase("inner"):
        raise KeyError("mine")
    assert notes[-4:] == [
        *("b: end inner", "a: end inner"),
        *("b: end outer", "a: end outer"),
    ]


def test_an_observer_adds_to_an_event_for_those_after_it(
    notes: list[str],
) -> None:
    record = emit("something", value=3)
    assert notes == ["a: something", "b: something"]
    assert record["event"] == "something"
    assert (record["value"], record["a"], record["b"]) == (3, 1, 2)
    assert isinstance(record["time"], float)


# The log


def test_the_log_is_json_lines_that_are_appended(tmp_path: Path) -> None:
    path = tmp_path / "events" / "attempt-2-rank-1.jsonl"
    path.parent.mkdir()
    log = EventLog(tmp_path, 2, 1, "run", {})
    log.event({"event": "a", "text": "two\nlines"})
    # Handed over at once: whoever is killed now has said it.
    assert len(list(read_events(path))) == 1
    EventLog(tmp_path, 2, 1, "run", {}).event({"event": "b"})
    who = {"run_id": "run", "attempt": 2, "rank": 1}
    assert list(read_events(path)) == [
        who | {"event": "a", "text": "two\nlines"},
        who | {"event": "b"},
    ]


def test_a_torn_last_line_is_legal_and_a_torn_middle_is_not(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log.jsonl"
    whole = "".join(json.dumps({"event": i}) + "\n" for i in range(3))
    for end in range(len(whole) + 1):
        path.write_text(whole[:end])
        complete = whole[:end].count("\n")
        assert [e["event"] for e in read_events(path)] == [*range(complete)]
    second = whole.index("\n") + 1
    for cut in range(second + 1, 2 * second - 1):
        path.write_text(whole[:cut] + "\n" + whole[2 * second :])
        with pytest.raises(ValueError, match=":2: "):
            list(read_events(path))


# The events of a run


def work(settings: Event, fail: str) -> Event:
    import lockstep.trainer.checkpoint as checkpoint

    if fail == "overflow":  # an optimizer's scale that no gradient survives
        first = torch.amp.GradScaler.__init__

        def high(self: Any, *args: Any, **given: Any) -> None:
            first(self, *args, **given | {"init_scale": 2.0**127})

        torch.amp.GradScaler.__init__ = high  # type: ignore[method-assign]
    if fail == "write":
        publish = checkpoint.publish

        def full(cfg: Any, tmp: Any, manifest: Event) -> Event:
            if manifest["step"] == 3:
                raise OSError("disk full")
            return publish(cfg, tmp, manifest)

        checkpoint.publish = full
    return launch(TrainConfig(**settings), ranks.store())


def logs(run_dir: Path, attempt: int) -> list[list[Event]]:
    paths = sorted(run_dir.glob(f"events/attempt-{attempt}-rank-*.jsonl"))
    return [list(read_events(path)) for path in paths]


def only(log: list[Event], kind: str) -> list[Event]:
    return [event for event in log if event["event"] == kind]


def without_own(event: Event) -> Event:
    """An event but for what is this rank's own: its name and its clock."""
    own = {"rank", "time", "seconds", "step_seconds", "samples_per_second"}
    own |= {"phases", "share_loss"}
    return {k: v for k, v in event.items() if k not in own}


ALWAYS = {"event", "time", "run_id", "attempt", "rank"}
STATE = {"step", "position", "learning_rate", "optimizer_steps", "scaler"}
RUN = {"config", "config_digest", "global_batch_size", "seed"}
RUN |= {"dataset_length", "dataset_fingerprint"}
RATES = {"step_seconds", "samples_per_second", "phases"}
HELD = {
    "run_started": RUN | {"steps", "world_size", "torch_version", "options"},
    "step": STATE | {"loss", "share_loss"} | RATES,
    "update_skipped": {"step", "scale"},
    "checkpoint_saved": {"step", "seconds", "checkpoint", "bytes"},
    "checkpoint_failed": {"step", "reason"},
    "checkpoint_damaged": {"checkpoint", "reason"},
    "checkpoint_restored": STATE | {"saved"},
    "run_finished": {"step", "loss", "position", "accuracy", "weights_sha256"},
}


def test_every_rank_logs_every_event_with_its_fields(tmp_path: Path) -> None:
    """Every rank logs every event with its fields. The ranks' logs agree except
    for rank, clock, and the report of a damaged checkpoint, which only rank 0
    sees."""
    given = SHORT | {"run_dir": tmp_path, "micro_batch_size": 16}
    given |= {"precision": "fp16"}
    ranks.run_ranks(2, work, given | {"stop_at_step": 5}, "overflow")
    newest = tmp_path / "checkpoints" / "step-00000005" / "optimizer.pt"
    newest.write_bytes(b"damaged")
    ranks.run_ranks(2, work, given | {"checkpoint_every_steps": 1}, "")
    seen: set[str] = set()
    for attempt in (0, 1):
        both = logs(tmp_path, attempt)
        assert len(both) == 2
        for rank, log in enumerate(both):
            assert {(e["attempt"], e["rank"]) for e in log} == {(attempt, rank)}
            firsts = {only(log, "step")[0]["step"]}
            for event in log:
                kind = event["event"]
                wanted = ALWAYS | HELD[kind]
                if kind == "step" and event["step"] in firsts:
                    wanted -= RATES  # there is nothing to measure from yet
                assert set(event) == wanted, kind
                seen.add(kind)
            assert [e["time"] for e in log] == sorted(e["time"] for e in log)
            assert log[0]["event"] == "run_started"
            assert log[-1]["event"] == "run_finished"
        told = [
            [without_own(e) for e in log if e["event"] != "checkpoint_damaged"]
            for log in both
        ]
        assert told[0] == told[1]
    damaged = only(logs(tmp_path, 1)[0], "checkpoint_damaged")
    assert [(e["checkpoint"], e["reason"]) for e in damaged] == [
        ("step-00000005", "optimizer.pt is not as published")
    ]
    assert seen == set(HELD) - {"checkpoint_failed"}


def test_failed_save_is_logged_and_run_completes(
    tmp_path: Path,
) -> None:
    """The disk is full during a save. Every rank logs the failure, and the run
    completes."""
    given = SHORT | {"run_dir": tmp_path, "micro_batch_size": 16}
    ranks.run_ranks(2, work, given, "write")
    for log in logs(tmp_path, 0):
        failed = only(log, "checkpoint_failed")
        assert [set(e) for e in failed] == [ALWAYS | HELD["checkpoint_failed"]]
        assert (failed[0]["step"], failed[0]["reason"]) == (3, "disk full")
        assert [e["step"] for e in only(log, "checkpoint_saved")] == [6, 8]
        assert log[-1]["event"] == "run_finished"


def test_steps_are_logged_when_asked_and_where_it_matters(
    tmp_path: Path,
) -> None:
    """The first of a launch, every second, and each that is saved."""
    ranks.run_ranks(1, work, SHORT | {"run_dir": tmp_path}, "")
    steps = [e["step"] for e in only(logs(tmp_path, 0)[0], "step")]
    assert steps == [1, 2, 3, 4, 6, 8]


# Where the time goes


@pytest.mark.parametrize("world", [1, 2])
def test_phases_add_up_to_at_most_the_step(world: int, tmp_path: Path) -> None:
    """The phases of a step don't overlap, except sync, which runs during the
    backward pass and counts only its exposed part. Their sum is at most the
    step's time; the rest is the loop's own."""
    given = SHORT | {"run_dir": tmp_path, "micro_batch_size": 32 // world}
    ranks.run_ranks(world, work, given | {"max_steps": 40}, "")
    for log in logs(tmp_path, 0):
        measured = [e for e in only(log, "step") if "phases" in e]
        assert len(measured) > 10
        for event in measured:
            spent = dict(event["phases"])
            sync, exposed = spent.pop("sync"), spent.pop("sync_exposed")
            assert set(spent) >= PHASES
            assert set(spent) <= PHASES | {"checkpoint"}
            assert all(seconds >= 0 for seconds in spent.values())
            # Both are differences of one clock; the sums round.
            assert sum(spent.values()) <= event["step_seconds"] * (1 + 1e-9)
            assert 0 <= exposed <= sync
        # A checkpoint is in the interval that follows it.
        steps = [e["step"] for e in measured if "checkpoint" in e["phases"]]
        assert steps[0] == 4


def test_every_span_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that ticks once a look, sums are exact."""
    ticks = iter(range(1000))
    module = "lockstep.trainer.extensions.timers.time.perf_counter"
    monkeypatch.setattr(module, lambda: next(ticks))
    timers = PhaseTimers(torch.device("cpu"), DataParallel())
    attach(timers)
    for _ in range(3):
        with phase("load"):
            pass
        with phase("forward"), phase("h2d"):
            pass
    assert timers.seconds() == {"load": 3, "h2d": 3, "forward": 9}
    assert timers.seconds() == {}
    attach()


def gpu_phases(cfg: TrainConfig) -> list[Event]:
    strategy = DataParallel()
    log = Notes("log", [])
    events: list[Event] = []
    log.event = events.append  # type: ignore[assignment,method-assign]
    with joined(cfg.timeout_seconds, ranks.store()) as me:
        attach(PhaseTimers(me.device, strategy), log)
        run(cfg.for_launch(me.world_size, {}), me, 0, strategy)
    attach()
    return only(events, "step")


@pytest.mark.gpu
@pytest.mark.skipif(
    not torch.cuda.is_available(), reason="there is no CUDA device"
)
def test_on_a_gpu_a_phase_lasts_until_its_kernels_end(tmp_path: Path) -> None:
    """Queuing a forward pass takes microseconds however large it is: with ten
    times the work, only a clock of the device shows a phase that grows."""
    times = []
    for size in (512, 8192):
        given = SHORT | {"run_dir": tmp_path / str(size), "hidden_size": size}
        given |= {"global_batch_size": 2048, "micro_batch_size": 2048}
        (tmp_path / str(size)).mkdir()
        events = ranks.run_ranks(1, gpu_phases, TrainConfig(**given))[0]
        last = events[-1]["phases"]
        assert set(last) >= PHASES
        assert 0 <= last["sync_exposed"] <= last["sync"]
        parts = sum(last[name] for name in PHASES)
        assert parts <= events[-1]["step_seconds"] * 1.05  # two clocks
        times.append(last["forward"] + last["backward"])
    assert times[1] > 4 * times[0]


def test_progress_shows_steps_and_what_interrupts_them() -> None:
    shown = io.StringIO()
    bar = ProgressBar(Console(file=shown, force_terminal=True, width=100))
    for event in (
        {"event": "run_started", "steps": 10},
        {"event": "checkpoint_damaged", "checkpoint": "c4", "reason": "torn"},
        {
            "event": "checkpoint_restored",
            "step": 2,
            "saved": {"checkpoint": "c2"},
        },
        {"event": "update_skipped", "step": 3},
        {"event": "checkpoint_failed", "step": 4, "reason": "disk full"},
        {"event": "step", "step": 7, "loss": 0.25},
    ):
        bar.event(event)
    bar.close()
    text = shown.getvalue()
    for line in (
        "c4 set aside: torn",
        "goes on from c2",
        "step 3 skipped: fp16 overflow",
        "no checkpoint of 4: disk full",
        "step 7/10",
        "loss 0.2500",
    ):
        assert line in text
    assert text.endswith("\x1b[?25h")  # the cursor is back


def in_a_terminal(settings: Event) -> str:
    """`launch` with standard error on a terminal; what that shows."""
    ours, theirs = pty.openpty()
    os.dup2(theirs, 2)
    sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    os.environ["TERM"] = "xterm"
    launch(TrainConfig(**settings), ranks.store())
    print("THE END", file=sys.stderr, flush=True)
    shown = ""
    while "THE END" not in shown:
        shown += os.read(ours, 1 << 16).decode()
    return shown


def test_a_terminal_sees_a_run_and_its_resume(tmp_path: Path) -> None:
    """Rank 0 alone draws, and every event that a run has can be drawn."""
    settings = SHORT | {"run_dir": tmp_path, "micro_batch_size": 16}
    first = ranks.run_ranks(2, in_a_terminal, settings | {"stop_at_step": 4})
    again = ranks.run_ranks(2, in_a_terminal, settings)
    assert "step 4/8" in first[0]
    assert first[1].strip() == "THE END"
    assert "goes on from step-00000004" in again[0]
    assert "step 8/8" in again[0]
