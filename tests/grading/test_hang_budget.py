"""What a grading costs when an answer hangs: the seconds that it grants, on a
clock of the test's own, which starts no process."""

import importlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lockstep.debugging.bugs import bugs
from lockstep.debugging.bugs import grading as bug_grading
from lockstep.drills import drills
from lockstep.grading import criteria, hang_budget
from lockstep.grading.criteria import CannotGradeError, Report
from lockstep.grading.exercise import Exercise
from lockstep.grading.hang_budget import HALF_A_MINUTE, MINUTE
from lockstep.grading.ranks import OutOfTimeError
from lockstep.labs import labs

# Drill 5 is a text, of which nothing is run.
GRADED = [*labs().values(), *(d for d in drills().values() if d.number != "5")]
every_grader = pytest.mark.parametrize("one", GRADED, ids=lambda one: one.name)
Takes = Callable[[tuple[Any, ...]], float]  # from a job to its seconds
NEVER = float("inf")
# What the jobs of a bug return: the proof finds something in every trainer.
RETURNED = {bug_grading.symptom_of: "it is", bug_grading.prove: "it is 1"}


class Clock:
    """Stands in for `Ranks`: a job takes the seconds that a test says."""

    def __init__(self, takes: Takes) -> None:
        self.takes = takes
        self.now = self.hung = 0.0
        self.granted: list[float] = []  # to what is not an import

    def start(self, world: int, *job: Any) -> "Clock":
        """As `Ranks` does it; the results are asked for next."""
        self.job = job
        return self

    def results(self, seconds: float) -> list[Any]:
        """Of ranks without a complaint, if they end in time."""
        takes = self.takes(self.job)
        if not is_import(self.job):
            self.granted.append(seconds)
        self.now += min(takes, seconds)
        if takes > seconds:
            self.hung += seconds
            raise OutOfTimeError("no answer", seconds)
        return [RETURNED.get(self.job[0])]


def is_import(job: tuple[Any, ...]) -> bool:
    """Whether a job only sees if a file can be imported."""
    return job[0] in (criteria.can_be_loaded, bug_grading.symptom_of)


@pytest.fixture
def on_a_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[Takes], Clock]:
    """From now on, jobs take the seconds that a test says."""

    def start(takes: Takes) -> Clock:
        clock = Clock(takes)
        monkeypatch.setattr(criteria, "Ranks", clock.start)
        monkeypatch.setattr(bug_grading, "Ranks", clock.start)
        monkeypatch.setattr(hang_budget, "monotonic", lambda: clock.now)
        for one in GRADED:  # there are no results to judge
            grader = importlib.import_module(one.grader)
            unjudged = [replace(c, judge=None) for c in grader.CRITERIA]
            monkeypatch.setattr(grader, "CRITERIA", unjudged)
        return clock

    return start


def graded(one: Exercise, folder: Path) -> Report:
    """The report on files that a clock does not look into."""
    for name in "answer.py", "trainer.py":
        (folder / name).write_text("")
    return one.graded(folder / "answer.py")


@every_grader
def test_an_answer_that_hangs_everywhere_costs_a_minute(
    one: Exercise, tmp_path: Path, on_a_clock: Callable[[Takes], Clock]
) -> None:
    """Grading an answer in which everything hangs ends within a minute, for
    every lab and drill."""
    clock = on_a_clock(lambda job: 0 if is_import(job) else NEVER)
    report = graded(one, tmp_path)
    assert {c.status for c in report.criteria} <= {"failed", "blocked"}
    assert clock.hung == sum(clock.granted) <= MINUTE
    assert min(clock.granted) > 2  # where a criterion takes about one


@every_grader
def test_an_answer_that_hangs_in_one_place_keeps_its_other_points(
    one: Exercise, tmp_path: Path, on_a_clock: Callable[[Takes], Clock]
) -> None:
    """An answer that hangs in one criterion fails that one after half a minute
    and keeps the points of the others."""

    def takes(job: tuple[Any, ...]) -> float:
        first = job[0] is criteria.attempt and job[2] == 0
        return NEVER if first else 2

    clock = on_a_clock(takes)
    report = graded(one, tmp_path)
    first, *others = report.criteria
    assert first.status == "failed"
    assert "did not end within 30 s. " in first.hint or one.number == "3"
    assert {c.status for c in others} <= {"passed", "blocked"}
    assert clock.hung <= HALF_A_MINUTE


@every_grader
def test_a_slow_answer_is_granted_all_that_its_criteria_ask_for(
    one: Exercise, tmp_path: Path, on_a_clock: Callable[[Takes], Clock]
) -> None:
    clock = on_a_clock(lambda job: 19)
    report = graded(one, tmp_path)
    assert report.score == report.full
    grader = importlib.import_module(one.grader)
    assert clock.granted == [c.seconds for c in grader.CRITERIA]


def test_who_got_less_time_after_a_hang_reads_why(
    tmp_path: Path, on_a_clock: Callable[[Takes], Clock]
) -> None:
    on_a_clock(lambda job: 0 if is_import(job) else NEVER)
    first, second, *_ = graded(labs()["02"], tmp_path).criteria
    assert first.hint.startswith("it did not end within 30 s. ")
    assert ", all that an earlier hang had left for it. " in second.hint


# A proof is run on the broken trainer, on a sound one, and on one with another
# bug; the fix comes last.
@pytest.mark.parametrize("ends", range(4))
def test_a_proof_and_a_fix_that_hang_cost_a_minute(
    ends: int, tmp_path: Path, on_a_clock: Callable[[Takes], Clock]
) -> None:
    """Where the proof ends so many times, and hangs after that."""
    proofs: list[Any] = []

    def takes(job: tuple[Any, ...]) -> float:
        proofs.extend(job[:1] if job[0] is bug_grading.prove else ())
        is_proof = job[0] is bug_grading.prove and len(proofs) <= ends
        return 0 if is_import(job) or is_proof else NEVER

    clock = on_a_clock(takes)
    report = graded(bugs()["07"], tmp_path)
    assert report.score == (5 if ends == 0 else 35)  # the symptom, the proof
    assert clock.hung == MINUTE
    assert min(clock.granted) == HALF_A_MINUTE


def test_an_import_that_hangs_costs_half_a_minute(
    tmp_path: Path, on_a_clock: Callable[[Takes], Clock]
) -> None:
    for one in labs()["01"], bugs()["07"]:
        clock = on_a_clock(lambda job: NEVER)
        with pytest.raises(
            CannotGradeError, match="not end within 30 s"
        ) as told:
            graded(one, tmp_path)
        assert "\n" not in str(told.value)
        assert clock.hung == HALF_A_MINUTE
