"""The audit proves what holds, and finds whatever of it does not."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lockstep.cli import main
from lockstep.trainer.__main__ import launch
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.extensions.audit import audit
from lockstep.trainer.extensions.events import read_events
from lockstep.trainer.extensions.record import SampleRecord
from lockstep.trainer.extensions.sample_record import (
    MAGIC,
    Trained,
    read_samples,
)
from tests import ranks
from tests.rank_faults import after_commit

Event = dict[str, Any]
# 4,000 samples in batches of 300: epochs end within steps, two are finished.
STEPS, BATCH, N = 30, 300, 4000
SETTINGS: Event = {
    "dataset": "toy",
    "global_batch_size": BATCH,
    "max_steps": STEPS,
    "checkpoint_every_steps": 5,
    "keep_checkpoints": 10,
    "log_every_steps": 1,
    "hidden_size": 4,
    "timeout_seconds": 30.0,
}
KILLED = 13  # between two checkpoints, 10 and 15


def work(settings: Event, kill: bool = False) -> Event:
    if kill:
        after_commit(KILLED, tear)
    return launch(TrainConfig(**settings), ranks.store())


def tear(record: SampleRecord) -> None:
    """Half of the step's record reaches the disk, then this rank dies."""
    record.file.flush()
    record.file.truncate(record.file.tell() - 8 * 20 - 3)
    os.kill(os.getpid(), signal.SIGKILL)


def train(world: int, run_dir: Path, *kill: bool, **settings: Any) -> None:
    given = SETTINGS | {"run_dir": run_dir, "micro_batch_size": BATCH // world}
    ranks.run_ranks(world, work, given | settings, *kill)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run as it should be; one that was stopped, then killed; and the same,
    finished on another number of ranks."""
    home = tmp_path_factory.mktemp("runs")
    names = "clean", "killed", "resumed"
    paths = {name: home / name for name in names}
    train(2, paths["clean"])
    train(2, paths["killed"], stop_at_step=7)
    with pytest.raises(ranks.RankError, match="died"):
        train(2, paths["killed"], True)
    shutil.copytree(paths["killed"], paths["resumed"])
    train(3, paths["resumed"])
    return paths


@pytest.fixture
def resumed(runs: dict[str, Path], tmp_path: Path) -> Path:
    """A copy to tamper with. Attempt 0 trained steps 1 to 7 and attempt 1 on
    to 13, on two ranks; attempt 2 went on from 10, on three."""
    return Path(shutil.copytree(runs["resumed"], tmp_path / "run"))


def test_a_clean_run_is_proven(runs: dict[str, Path]) -> None:
    report = audit(runs["clean"])
    assert report.proven
    assert report.finished
    assert (report.steps, report.samples) == (STEPS, STEPS * BATCH)
    assert (report.epochs, report.restarts) == (2, 0)
    assert (report.duplicates, report.missing) == (0, 0)
    assert report.replayed_steps == 0


def test_launch_that_trains_nothing_is_no_restart(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    """A launch of a finished run restores its end and leaves, and one that a
    bad setting ends trains nothing. Neither is a restart."""
    run_dir = Path(shutil.copytree(runs["clean"], tmp_path / "run"))
    train(2, run_dir)
    events = run_dir / "events"
    (events / "attempt-2-rank-0.jsonl").write_text("")
    assert len(list(events.glob("attempt-*-rank-0.jsonl"))) == 3
    report = audit(run_dir)
    assert report.proven
    assert report.restarts == 0


def test_a_run_that_was_stopped_and_killed_and_moved_is_proven(
    runs: dict[str, Path],
) -> None:
    """A run that was stopped, killed, resumed on another number of ranks and
    moved is proven: every sample of two epochs was trained on once."""
    report = audit(runs["resumed"])
    assert report.findings == []
    assert report.finished
    assert (report.steps, report.samples) == (STEPS, STEPS * BATCH)
    assert (report.epochs, report.restarts) == (2, 2)
    assert report.replayed_steps == 2  # 11 and 12; 13 was torn


def test_a_run_that_was_killed_is_proven_as_far_as_it_is_recorded(
    runs: dict[str, Path],
) -> None:
    """A torn last record is what a kill leaves behind: it counts for nothing,
    and takes nothing away."""
    report = audit(runs["killed"])
    assert report.findings == []
    assert not report.finished
    assert report.steps == KILLED - 1


def test_a_torn_last_event_is_legal(resumed: Path) -> None:
    path = resumed / "events" / "attempt-1-rank-0.jsonl"
    with path.open("a") as file:
        file.write('{"event": "st')
    assert audit(resumed).proven


# Tampering. Each takes a run and returns nothing; each name says what it does.


def samples(run: Path, attempt: int, rank: int) -> Path:
    return run / "samples" / f"attempt-{attempt}-rank-{rank}.bin"


def rewrite(
    run: Path,
    attempt: int,
    rank: int,
    change: Callable[[list[Trained]], list[Trained]],
) -> None:
    """One rank's record of an attempt, as `change` would have it."""
    path = samples(run, attempt, rank)
    raw = b""
    for t in change([t._replace(ids=t.ids.copy()) for t in read_samples(path)]):
        head = (MAGIC, t.attempt, t.step, t.position, len(t.ids))
        raw += np.array(head).tobytes() + t.ids.tobytes()
    path.write_bytes(raw)


def rewrite_events(
    run: Path, attempt: int, change: Callable[[Event], Any]
) -> None:
    """Rank 0's events of an attempt, each put through `change`."""
    path = run / "events" / f"attempt-{attempt}-rank-0.jsonl"
    events = list(read_events(path))
    for event in events:
        change(event)
    path.write_text("".join(json.dumps(event) + "\n" for event in events))


def without(step: int) -> Callable[[list[Trained]], list[Trained]]:
    return lambda all_: [t for t in all_ if t.step != step]


def drop_a_step(run: Path) -> None:
    for rank in range(3):
        rewrite(run, 2, rank, without(20))


def drop_the_first_step(run: Path) -> None:
    for rank in range(2):
        rewrite(run, 0, rank, without(1))


def drop_the_last_step(run: Path) -> None:
    for rank in range(3):
        rewrite(run, 2, rank, without(STEPS))


def drop_a_step_on_one_rank(run: Path) -> None:
    rewrite(run, 2, 1, without(20))


def drop_the_last_step_on_one_rank(run: Path) -> None:
    rewrite(run, 2, 1, without(STEPS))


def drop_the_step_that_was_restored(run: Path) -> None:
    rewrite(run, 1, 0, without(10))


def duplicate_a_record(run: Path) -> None:
    rewrite(run, 2, 0, lambda all_: [*all_[:5], all_[4], *all_[5:]])


def exchange_two_records(run: Path) -> None:
    rewrite(run, 2, 0, lambda all_: [all_[1], all_[0], *all_[2:]])


def take_a_record_from_another_attempt(run: Path) -> None:
    rewrite(run, 2, 0, lambda all_: [all_[0]._replace(attempt=1), *all_[1:]])


def swap_two_ranks_shares(run: Path) -> None:
    first, second = (list(read_samples(samples(run, 2, r)))[4] for r in (0, 1))
    rewrite(run, 2, 0, lambda all_: [*all_[:4], second, *all_[5:]])
    rewrite(run, 2, 1, lambda all_: [*all_[:4], first, *all_[5:]])


def change_an_id(run: Path) -> None:
    def change(all_: list[Trained]) -> list[Trained]:
        all_[0].ids[7] = (all_[0].ids[7] + 1) % N
        return all_

    rewrite(run, 2, 1, change)


def reorder_a_share(run: Path) -> None:
    def change(all_: list[Trained]) -> list[Trained]:
        all_[3].ids[:2] = all_[3].ids[1::-1].copy()
        return all_

    rewrite(run, 2, 2, change)


def give_two_ranks_one_sample(run: Path) -> None:
    other = list(read_samples(samples(run, 2, 0)))[4].ids[0]

    def change(all_: list[Trained]) -> list[Trained]:
        all_[4].ids[0] = other
        return all_

    rewrite(run, 2, 1, change)


def shift_a_position(run: Path) -> None:
    def change(all_: list[Trained]) -> list[Trained]:
        return [t._replace(position=t.position + (t.step == 15)) for t in all_]

    for rank in range(3):
        rewrite(run, 2, rank, change)


def drop_a_ranks_file(run: Path) -> None:
    samples(run, 1, 1).unlink()


def corrupt_a_header(run: Path) -> None:
    words = np.fromfile(samples(run, 2, 0), np.int64)
    words[np.flatnonzero(words == MAGIC)[3]] ^= 1
    words.tofile(samples(run, 2, 0))


def corrupt_a_count(run: Path) -> None:
    """A record that claims more than the file holds looks torn."""
    words = np.fromfile(samples(run, 2, 0), np.int64)
    words[np.flatnonzero(words == MAGIC)[3] + 4] = 10**9
    words.tofile(samples(run, 2, 0))


def change_a_learning_rate(run: Path) -> None:
    def change(event: Event) -> None:
        if event["event"] == "step" and event["step"] == 20:
            event["learning_rate"] *= 1 + 1e-12

    rewrite_events(run, 2, change)


def restored(name: str, by: float) -> Callable[[Path], None]:
    def tamper(run: Path) -> None:
        def change(event: Event) -> None:
            if event["event"] == "checkpoint_restored":
                place = event["saved"] if name in event["saved"] else event
                place[name] += by

        rewrite_events(run, 2, change)

    tamper.__name__ = f"change_the_restored_{name}_by_{by}"
    return tamper


def drop_the_events_of_what_was_restored(run: Path) -> None:
    (run / "events" / "attempt-1-rank-0.jsonl").unlink()


def tear_a_middle_event(run: Path) -> None:
    path = run / "events" / "attempt-2-rank-0.jsonl"
    lines = path.read_text().splitlines()
    lines[4] = lines[4][:30]
    path.write_text("\n".join(lines) + "\n")


TAMPERED: dict[Callable[[Path], None], set[str]] = {
    drop_a_step: {"position_continuous", "exactly_once", "order_kept"},
    drop_the_first_step: {"position_continuous", "exactly_once", "order_kept"},
    drop_the_last_step: {"position_continuous"},
    drop_a_step_on_one_rank: {"position_continuous", "exactly_once"},
    drop_the_last_step_on_one_rank: {"position_continuous"},
    drop_the_step_that_was_restored: {"position_continuous", "exactly_once"},
    duplicate_a_record: {"position_continuous", "exactly_once"},
    exchange_two_records: {"position_continuous"},
    take_a_record_from_another_attempt: {"position_continuous"},
    swap_two_ranks_shares: {"order_kept"},
    change_an_id: {"order_kept", "exactly_once"},
    reorder_a_share: {"order_kept"},
    give_two_ranks_one_sample: {"shares_disjoint", "order_kept"},
    shift_a_position: {"position_continuous"},
    drop_a_ranks_file: {"position_continuous"},
    corrupt_a_header: {"position_continuous"},
    corrupt_a_count: {"position_continuous"},
    change_a_learning_rate: {"restores_continuous"},
    restored("step", 1): {"restores_continuous"},
    restored("step", -1): {"restores_continuous"},
    restored("position", 1): {"restores_continuous"},
    restored("learning_rate", 1e-12): {"restores_continuous"},
    restored("loss", 1e-9): {"restores_continuous"},
    restored("attempt", 1): {"restores_continuous"},  # itself
    restored("attempt", -2): {"restores_continuous"},  # nobody
    drop_the_events_of_what_was_restored: {"restores_continuous"},
    tear_a_middle_event: {"position_continuous"},
}
CLAIMS = {"exactly_once", "order_kept", "shares_disjoint"}
# What nobody could read is not said to hold.
SAMPLES = frozenset(CLAIMS)
UNREAD = drop_a_ranks_file, corrupt_a_header, corrupt_a_count
CLAIMS |= {"position_continuous", "restores_continuous"}


@pytest.mark.parametrize("tamper", TAMPERED, ids=lambda t: t.__name__)
def test_a_tampered_record_is_found(
    tamper: Callable[[Path], None], resumed: Path
) -> None:
    """By the claims it breaks, and by the exit code."""
    tamper(resumed)
    report = audit(resumed)
    failed = {claim for claim in CLAIMS if not getattr(report, claim)}
    assert TAMPERED[tamper] <= failed
    assert {text.split(":")[0] for text in report.findings} == failed
    if tamper in UNREAD:
        told = {claim for claim in CLAIMS if getattr(report, claim) is None}
        assert told == SAMPLES
    assert main(["audit", str(resumed)]) == 1


@pytest.mark.parametrize("kept", ["no file", "no byte"])
def test_what_was_not_read_is_not_said_to_hold(
    kept: str, resumed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the record of samples emptied, the audit claims nothing that it
    would have shown, and counts every trained sample as missing."""
    whole = audit(resumed)
    for file in (resumed / "samples").iterdir():
        file.unlink() if kept == "no file" else file.write_bytes(b"")
    report = audit(resumed)
    assert not report.proven
    for claim in ("exactly_once", "order_kept", "shares_disjoint"):
        assert getattr(report, claim) is None
        assert any(f"{claim}: not read" in one for one in report.findings)
    assert (report.samples, report.missing) == (0, whole.samples)
    assert main(["audit", str(resumed)]) == 1
    assert "exactly once not read" in " ".join(capsys.readouterr().out.split())


def test_every_claim_can_fail_alone_or_is_seen_to_fail() -> None:
    assert set.union(*TAMPERED.values()) == CLAIMS


def test_how_much_is_missing_or_twice_is_counted(resumed: Path) -> None:
    """With one recorded sample id changed, the audit counts one sample missing
    and one twice."""
    change_an_id(resumed)  # one sample of a finished epoch became another
    report = audit(resumed)
    assert (report.missing, report.duplicates) == (1, 1)


# The command


KEYS = {"proven", "finished", "duplicates", "missing", "samples", "epochs"}
KEYS |= {"steps", "restarts", "replayed_steps", "damaged_checkpoints"}
KEYS |= CLAIMS | {"findings"}


def test_the_report_for_machines(
    runs: dict[str, Path], resumed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", str(runs["clean"]), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert set(report) == KEYS
    assert report["proven"]
    assert report["exactly_once"]
    assert report["findings"] == []
    change_an_id(resumed)
    assert main(["audit", str(resumed), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert set(report) == KEYS
    assert not report["proven"]
    assert not report["exactly_once"]
    assert report["findings"]


def test_the_report_for_people_names_the_findings(
    resumed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", str(resumed)]) == 0
    assert "NOT" not in capsys.readouterr().out
    swap_two_ranks_shares(resumed)
    assert main(["audit", str(resumed)]) == 1
    said = capsys.readouterr().out
    assert "NOT proven" in said
    assert "order_kept: step 15: rank 0" in said


def test_no_run_is_told_apart_from_no_proof(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for nothing in (tmp_path, tmp_path / "absent"):
        assert main(["audit", str(nothing)]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith(f"error: {nothing} holds no run")
