"""The exam on real trainers: a sound one passes, and each fault is found by its
question. A slice each day, everything each week."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import lockstep.experiments.peers
from lockstep.exam.adapter import Launch, load
from lockstep.exam.examine import Exam, examine
from lockstep.exam.questions import BY_ID, current
from lockstep.experiments.peers.__main__ import EXAMPLES
from lockstep.experiments.peers.tables import variants

PYTHON = "EXAM_PYTHON"  # the variable that names the trainer's interpreter
HOME = Path(lockstep.experiments.peers.__path__[0])
VARIANTS = variants(HOME / "broken")
FAULTS = [name for name, one in VARIANTS.items() if one.question]
DAILY = ["optimizer"]
LEFT_OUT: dict[str, set[str]] = {
    "lockstep": set(),
    "cut": {"flipped-bit", "sigterm"},
}


def examined(adapter: Path, folder: Path, *only: str) -> Exam:
    """An exam of two ranks."""
    python = os.environ.get(PYTHON, sys.executable)
    launch = Launch(Path(), timeout_seconds=30, python=python)
    return examine(load(adapter), folder, launch, frozenset(only))


@pytest.fixture
def loaded(warm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches of a test begin with torch loaded. Weekly, they begin cold."""
    monkeypatch.setenv(PYTHON, str(warm / "python"))


def failures(exam: Exam) -> dict[str, str]:
    """What failed by a cause of its own, and what was seen."""
    return {
        name: result.verdict.said
        for name, result in exam.results.items()
        if result.verdict.answer == "failed" and not result.same_as
    }


@pytest.mark.timeout(400)
@pytest.mark.usefixtures("loaded")
def test_a_sound_loop_passes(tmp_path: Path) -> None:
    """The plain loop with the trainer's pieces passes what is asked of its
    order, its random states, averaged weights and damaged checkpoints."""
    only = "order", "rng-state", "ema", "kill", "flipped-bit", "wrong-run"
    adapter = EXAMPLES / "plain_loop_exam.py"
    exam = examined(adapter, tmp_path, *only)
    assert {n: r.verdict.answer for n, r in exam.results.items()} == {
        name: "passed" for name in BY_ID if name in only
    }


@pytest.mark.timeout(400)
@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize("fault", DAILY)
def test_fault_fails_its_own_question(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trainer with one fault fails the question made for that fault three
    times in a row, and the questions that depend on it don't fail
    separately."""
    monkeypatch.setenv("LOCKSTEP_FAULT", fault)
    exam = examined(HOME / "broken/adapter.py", tmp_path, "order", fault)
    name = current(fault)
    assert [*failures(exam)] == [name]
    assert exam.results[name].reproduced == "3 of 3"


@pytest.mark.weekly
@pytest.mark.timeout(400)
@pytest.mark.usefixtures("loaded")
def test_trainer_that_saves_after_epochs_is_examined(tmp_path: Path) -> None:
    """A trainer that saves after whole epochs passes the questions at their
    ends. Its loss scale wouldn't move by itself, and the exam still finds that
    the scale is lost."""
    only = (
        "resumes-latest",
        "exactly-once",
        "rng-state",
        "final-weights",
        "two-restarts",
        "scaler",
    )
    exam = examined(Path(__file__).parent / "epoch_trainer.py", tmp_path, *only)
    assert {n: r.verdict.answer for n, r in exam.results.items()} == {
        "resumes-latest": "passed",
        "exactly-once": "passed",
        "rng-state": "passed",
        "final-weights": "passed",
        "two-restarts": "not applicable",
        "scaler": "failed",
    }
    assert exam.results["resumes-latest"].verdict.said == "from step 12"
    assert exam.results["exactly-once"].verdict.said == "96 samples an epoch"
    assert "scale 8, not 2" in exam.results["scaler"].verdict.said


@pytest.mark.weekly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_found_by_its_question_alone(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = VARIANTS[fault]
    monkeypatch.setenv("LOCKSTEP_FAULT", one.name)
    exam = examined(one.adapter, tmp_path)
    assert [*failures(exam)] == [one.question]


@pytest.mark.weekly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", sorted(VARIANTS.keys() - {*FAULTS}))
def test_sound_variants_fail_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCKSTEP_FAULT", VARIANTS[name].name)
    assert failures(examined(VARIANTS[name].adapter, tmp_path)) == {}


@pytest.mark.weekly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("peer", ["lockstep", "cut"])
def test_ours_fail_what_they_leave_out(peer: str, tmp_path: Path) -> None:
    found = failures(examined(HOME / peer / "adapter.py", tmp_path))
    assert {*found} == LEFT_OUT[peer]


def recorded(name: str) -> Any:
    """A result that was written down."""
    return json.loads((HOME / name).read_text())


def test_every_question_has_a_fault() -> None:
    """For each question of the exam there is a trainer that was made to fail
    it, by one fault; for some there are several."""
    assert {VARIANTS[name].question for name in FAULTS} == {*BY_ID}


def test_recorded_faults_fail_their_own_question_only() -> None:
    """In the recorded campaign every trainer with a fault failed the question
    made for that fault, and no other question by a separate cause. The sound
    variants failed no question."""
    found = recorded("faults.json")["faults"]
    assert {name: one["failed"] for name, one in found.items()} == {
        name: [one.question] * (name in FAULTS)
        for name, one in VARIANTS.items()
    }


def test_recorded_trainer_and_cut_results() -> None:
    """In the recorded exams the reference trainer failed no question, on two
    ranks and on four. The interview cut failed what its first lines say it
    leaves out: digests and SIGTERM."""
    for peer, ranks in (
        ("lockstep", "ranks 2"),
        ("lockstep", "ranks 4"),
        ("cut", "ranks 2"),
    ):
        found = recorded(f"{peer}/result.json")[ranks]
        failed = {
            q["id"] for q in found["questions"] if q["answer"] == "failed"
        }
        assert failed == LEFT_OUT[peer], peer
        assert found["passed"] > 5, peer


def test_recorded_trainers_keep_optimizer_rate_and_buffers() -> None:
    """In all recorded exams on two ranks, every trainer restored the
    optimizer's state, the learning rate and the model's buffers, if the model
    has any. Our cut's has none."""
    asked = 0
    for path in HOME.glob("*/result.json"):
        answers = {
            one["id"]: one["answer"]
            for one in json.loads(path.read_text())["ranks 2"]["questions"]
        }
        if path.parent.name == "cut":
            assert answers.pop("buffers") == "not applicable"
        for name in {"optimizer", "learning-rate", "buffers"} & answers.keys():
            assert answers[name] == "passed", (path.parent.name, name)
            asked += 1
    assert asked >= 30


def test_recorded_examples_pass_the_exam() -> None:
    """In the recorded exams the loops with the trainer's pieces, plain and with
    Accelerate and Lightning, failed no question, and neither did the trainer
    with the two example tasks."""
    found = recorded("examples.json")
    loops = "plain_loop", "accelerate_loop", "lightning_loop"
    for name in (*loops, "gpt", "protein"):
        answers = [*found[name]["answers"].values()]
        assert {*answers} <= {"passed", "not applicable"}, name
        assert answers.count("passed") >= 28, name
