"""Faults of every kind, in every phase: each run ends as if undisturbed."""

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from lockstep.experiments.faults import __main__ as program
from lockstep.experiments.faults import campaign
from lockstep.experiments.faults.judge import (
    Log,
    complaints,
    left_together,
    recoveries,
    wrong_end,
)
from lockstep.experiments.faults.random_faults import (
    CELLS,
    EVERY,
    LEAVING,
    SETTINGS,
    STEPS,
    drawn,
)
from lockstep.experiments.faults.tables import plot, tables
from lockstep.trainer.__main__ import launch
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.extensions.audit import audit
from lockstep.trainer.extensions.faults import (
    COMPUTING,
    KINDS,
    SAVING,
    checked,
    parsed,
)
from lockstep.trainer.extensions.options import Options
from tests import ranks
from tests.jobs import warm_torchrun

Event = dict[str, Any]
SHORT: Event = {
    "dataset": "toy",
    "global_batch_size": 960,
    "micro_batch_size": 240,
    "max_steps": 24,
    "checkpoint_every_steps": 2,
    "keep_checkpoints": 2,
    "log_every_steps": 1,
    "hidden_size": 4,
    "timeout_seconds": 8.0,
}

# The short selection: every kind and every phase, by attempt


SELECTION = [
    *("slow:rank=1,step=1,phase=load,ms=20", "kill:rank=0,step=3,phase=h2d"),
    "raise:rank=1,step=4,phase=forward",
    "nan:rank=0,step=5,phase=sync",
    "hang:rank=1,step=7,phase=backward",
    *("enospc:rank=1,step=8,phase=fsync", "torn:rank=0,step=10,phase=write"),
    *("flip:rank=1,step=12,phase=prune", "kill:rank=1,step=13,phase=optimizer"),
    "kill:rank=0,step=14,phase=manifest",
    "raise:rank=0,step=16,phase=rename",
    *(
        "sigterm:rank=1,step=17,phase=load",
        "slow:rank=0,step=18,phase=load,ms=1500",
    ),
]


pytestmark = [
    pytest.mark.xdist_group("chaos"),  # the selection runs once
    pytest.mark.timeout(600),
]


def work(given: Event, faults: list[str]) -> Event:
    return launch(
        TrainConfig(**given), ranks.store(), Options(fault=tuple(faults))
    )


@pytest.fixture(scope="module")
def selected(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run with that selection, and the weights of one without."""
    folder = tmp_path_factory.mktemp("selection")
    given = SHORT | {"run_dir": folder / "whole"}
    whole = ranks.run_ranks(2, work, given, [])[0]["weights_sha256"]
    given = SHORT | {"run_dir": folder / "struck"}
    for _ in range(len(SELECTION)):
        try:
            last = ranks.run_ranks(2, work, given, SELECTION)
        except ranks.RankError:
            continue
        if last[0]["event"] == "run_finished":
            break
    return folder / "struck", whole


def test_the_selection_has_every_kind_and_every_phase() -> None:
    faults = [parsed(text) for text in SELECTION]
    assert {fault.kind for fault in faults} == set(KINDS)
    assert {fault.phase for fault in faults} == {*COMPUTING, *SAVING}


@pytest.mark.slow
def test_struck_in_every_way_a_run_ends_as_if_undisturbed(
    selected: tuple[Path, str],
) -> None:
    run_dir, whole = selected
    faults = [parsed(text) for text in SELECTION]
    assert [*complaints(run_dir, faults, whole)] == []
    assert len(recoveries(run_dir, faults)) == 9
    report = audit(run_dir)
    assert report.epochs == 5
    assert (report.restarts, report.damaged_checkpoints) == (9, 1)


# The judge


def without(name: str) -> Callable[[Event], Event | None]:
    """Leaves out the events of that name."""
    return lambda event: None if event["event"].startswith(name) else event


def later_stop(event: Event) -> Event:
    """One rank stopped at another step."""
    moved = event["event"] == "run_stopped" and event["rank"] == 1
    return event | {"step": event["step"] + 1} if moved else event


TAMPERED: dict[str, tuple[Callable[[Event], Event | None], str]] = {
    "no strike": (without("fault"), "did not strike once"),
    "no watchdog": (without("hang"), "no watchdog found it"),
    "not found": (without("checkpoint_damaged"), "nobody found it"),
    "no warning": (without("checkpoint_failed"), "no warning"),
    "unfinished": (without("run_finished"), "not finished"),
    "not together": (later_stop, "left at {"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TAMPERED)
def test_what_did_not_end_as_it_has_to_is_told(
    name: str, selected: tuple[Path, str], tmp_path: Path
) -> None:
    change, wrong = TAMPERED[name]
    run_dir = Path(shutil.copytree(selected[0], tmp_path / "run"))
    for path in run_dir.glob("events/*.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        kept = [json.dumps(e) + "\n" for e in map(change, lines) if e]
        path.write_text("".join(kept))
    faults = [parsed(text) for text in SELECTION]
    assert wrong in " ".join(complaints(run_dir, faults, selected[1]))


@pytest.mark.slow
def test_other_weights_and_another_record_are_told(
    selected: tuple[Path, str], tmp_path: Path
) -> None:
    said = [*complaints(selected[0], [], "0" * 64)]
    assert said == ["other weights than undisturbed"]
    run_dir = Path(shutil.copytree(selected[0], tmp_path / "run"))
    for path in run_dir.glob("samples/*-rank-1.bin"):
        path.write_bytes(b"")
    assert [*complaints(run_dir, [], selected[1])] != []


def write_log(run_dir: Path, attempt: int, *events: Event) -> None:
    """Rank 0's log of an attempt."""
    path = run_dir / "events" / f"attempt-{attempt}-rank-0.jsonl"
    path.parent.mkdir(exist_ok=True)
    who = {"attempt": attempt, "rank": 0}
    path.write_text("".join(json.dumps(who | e) + "\n" for e in events))


def test_it_takes_from_the_strike_to_the_step_that_was_struck(
    tmp_path: Path,
) -> None:
    fault = parsed("kill:rank=0,step=3,phase=load")
    struck = {"event": "fault", "fault": str(fault), "time": 10.0}
    write_log(tmp_path, 0, {"event": "step", "step": 3, "time": 9.0}, struck)
    done = [{"event": "step", "step": s, "time": 10.0 + s} for s in (2, 3, 4)]
    write_log(tmp_path, 1, *done)
    assert recoveries(tmp_path, [fault]) == [3.0]


def test_a_rank_that_goes_on_after_its_end_is_told(tmp_path: Path) -> None:
    fault = parsed("kill:rank=0,step=3,phase=load")
    struck = {"event": "fault", "fault": str(fault), "time": 10.0}
    write_log(tmp_path, 0, struck, {"event": "step", "step": 3, "time": 11.0})
    log = Log(tmp_path)
    said = log.strike(fault)
    assert said
    assert wrong_end(log, fault, *said) == "its rank went on: step"


# What is drawn


class Finished:
    """The log of a run whose last step came before the signal was heard."""

    def ranks(self, attempt: int) -> list[list[Event]]:
        return [[{"event": "run_finished", "step": STEPS}]] * 2


def test_a_run_that_is_over_before_all_have_heard_has_left_together() -> None:
    assert left_together(Finished(), 0) is None  # type: ignore[arg-type]


def test_what_is_drawn_can_strike_and_comes_evenly() -> None:
    draws = [drawn(1, number) for number in range(3 * len(CELLS))]
    assert draws == [drawn(1, number) for number in range(3 * len(CELLS))]
    assert draws != [drawn(2, number) for number in range(3 * len(CELLS))]
    first = [draw.faults[0] for draw in draws]
    often = Counter((fault.kind, fault.phase) for fault in first)
    assert set(often) == set(CELLS)
    assert set(often.values()) == {3}
    assert {f.phase for f in first} == {*COMPUTING, *SAVING}
    assert Counter(d.world_size for d in draws).keys() == {2, 4}
    cfg = TrainConfig(Path(), **SETTINGS)
    for draw in draws:
        for fault in draw.faults:
            assert checked(str(fault), cfg, draw.world_size) == fault


def test_what_ends_nothing_is_followed_by_what_does() -> None:
    """Somebody has to read a flipped byte; a signal has to be heard."""
    for number in range(3 * len(CELLS)):
        first, *others = drawn(1, number).faults
        if first.kind == "flip":
            assert [f.kind for f in others] == ["kill"]
            assert first.step < others[0].step < first.step + EVERY
        elif first.kind == "sigterm":
            assert [f.kind for f in others] == ["slow"]
            under_way = first.step + (first.phase in SAVING)
            assert others[0].step == under_way + 1
            assert first.step <= STEPS - LEAVING
        else:
            assert others == []


# The campaign


@pytest.mark.weekly
def test_a_campaign_under_torchrun(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As small as it can be: one run, and one restart of another."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(campaign, "TORCHRUN", warm_torchrun()[:-2])
    monkeypatch.setattr(campaign, "TRAINER", warm_torchrun()[-2:])
    path = Path("result.json")
    assert program.run(1, times=1, result=path) == 0
    found, told = json.loads(path.read_text()), capsys.readouterr().out
    (one,) = found["runs"]
    assert one["faults"] == [str(fault) for fault in drawn(1, 0).faults]
    assert one["faults"][0] in told
    row = found["in_a_row"]
    for run in (one, row):
        assert run["wrong"] == []
        assert len(run["recovery"]) == 1
        assert 0 < run["recovery"][0] < run["seconds"]
    assert path.with_suffix(".md").read_text() == tables(found)
    assert "0 of 2 runs did not end" in told
    misjudged = found | {"runs": [one | {"wrong": ["?"], "recovery": []}]}
    path.write_text(json.dumps(misjudged))
    command = (
        sys.executable,
        "-m",
        "lockstep.experiments.faults",
        "judge",
        "--result",
        path,
    )
    subprocess.run(command, check=True)
    assert json.loads(path.read_text()) == found


def result(**changed: Any) -> Event:
    """Of one run."""
    one = {"run": 4, "world_size": 2, "kind": "kill", "phase": "load"}
    one |= {"step": 3, "faults": ["kill:…"], "seconds": 9.0, "recovery": [3.25]}
    return one | {"wrong": []} | changed


def test_a_wrong_end_fails_the_campaign_and_says_how_to_repeat_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = [result(), result(run=5, wrong=["not finished"])]
    monkeypatch.setattr(program, "campaign", lambda *_: iter(runs))
    monkeypatch.setattr(program, "in_a_row", lambda *_: result())
    path = tmp_path / "result.json"
    assert program.run(2, seed=7, result=path) == 1
    said = capsys.readouterr().out
    assert "wrong: not finished" in said
    assert (
        "again: python -m lockstep.experiments.faults only --run 5 --seed 7"
        in said
    )
    assert json.loads(path.read_text())["runs"] == runs
    assert "2, **1 wrong**" in path.with_suffix(".md").read_text()
    monkeypatch.setattr(program, "campaign", lambda *_: iter(runs[:1]))
    assert program.run(1, seed=7, result=path) == 0


def test_the_plot_has_a_dot_for_every_recovery() -> None:
    runs = [result(recovery=[s]) for s in (1.0, 2.5)]
    runs += [
        result(kind="hang", recovery=[9.0]),
        result(kind="slow", recovery=[]),
    ]
    drawing = ElementTree.fromstring(plot({"runs": runs}))
    dots = [float(dot.get("cx", 0)) for dot in drawing.iter("circle")]
    assert len(dots) == 3
    assert dots == sorted(dots)
    assert max(dots) < 360
    words = [text.text for text in drawing.iter("text")]
    assert {"kill", "hang", "seconds to recover"} <= {*words}
    assert "slow" not in words


def test_the_recorded_campaign_is_whole_and_has_no_exception() -> None:
    found = json.loads(program.RESULT.read_text())
    assert program.RESULT.with_suffix(".md").read_text() == tables(found)
    struck = {(run["kind"], run["phase"]) for run in found["runs"]}
    assert struck == set(CELLS)
    assert len(found["runs"]) >= 200
    assert len(found["in_a_row"]["recovery"]) >= 20
    every = [*found["runs"], found["in_a_row"]]
    assert [run for run in every if run["wrong"]] == []
    assert not found["revision"].endswith("-dirty")
    for run in found["runs"]:
        draw = drawn(found["seed"], run["run"])
        assert run["faults"] == [str(fault) for fault in draw.faults]
