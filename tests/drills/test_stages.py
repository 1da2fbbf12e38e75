"""Every drill: each mistake costs its criterion, and what the command does."""

import json
import time
from pathlib import Path

import pytest

from lockstep.cli import main
from lockstep.drills import Drill, drills
from tests.grading.wrong_answers import (
    Wrong,
    assert_costs,
    assert_each_criterion_has_its_mistake,
    assert_fails,
    one_for_each_criterion,
    wrong_answers,
)

pytestmark = pytest.mark.timeout(300)
SECONDS = 60  # a criterion takes one, where nothing else runs
DRILLS = list(drills().values())
WRONG = wrong_answers(DRILLS)


@pytest.mark.parametrize("drill", DRILLS, ids=lambda drill: drill.name)
def test_the_start_is_gradable_and_not_full(drill: Drill) -> None:
    report = drill.graded(drill.start, seconds=SECONDS)
    assert report.score < report.full
    if drill.number in "15":  # the others begin with a solution
        assert report.score == 0
        assert {c.status for c in report.criteria} <= {
            "not attempted",
            "blocked",
        }


def assert_costs_its_own(wrong: Wrong, folder: Path) -> None:
    """The mistake breaks what it says, and nothing else."""
    file = wrong.written(folder)
    assert_costs(wrong.exercise.graded(file, seconds=SECONDS), wrong)


@pytest.mark.parametrize("wrong", one_for_each_criterion(WRONG), ids=str)
def test_a_mistake_costs_the_criterion_that_it_breaks(
    wrong: Wrong, tmp_path: Path
) -> None:
    if wrong.solution[0].suffix == ".py":
        assert_fails(wrong, tmp_path, SECONDS)
    else:  # its criteria are about files, and judged together
        assert_costs_its_own(wrong, tmp_path)


@pytest.mark.parametrize("drill", DRILLS[::2], ids=lambda drill: drill.name)
def test_a_mistake_costs_no_other_criterion(
    drill: Drill, tmp_path: Path
) -> None:
    """The first mistake of each second drill; all of all once a week."""
    first = next(one for one in WRONG if one.exercise == drill)
    assert_costs_its_own(first, tmp_path)


@pytest.mark.weekly
@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_no_mistake_costs_another_criterion(
    wrong: Wrong, tmp_path: Path
) -> None:
    assert_costs_its_own(wrong, tmp_path)


@pytest.mark.parametrize("drill", DRILLS, ids=lambda drill: drill.name)
def test_every_criterion_is_the_only_one_that_some_mistake_breaks(
    drill: Drill,
) -> None:
    """For each criterion of a drill there is a plausible mistake that breaks
    that one and no other."""
    assert_each_criterion_has_its_mistake(drill, WRONG)


def test_what_comes_at_half_time_is_not_needed_before(tmp_path: Path) -> None:
    drill = drills()["2"]
    text = drill.solution.read_text("utf-8")
    text = text.replace("    micro_batch_size: int = 16\n", "").replace(
        "self.micro_batch_size * world", "batch // world * world"
    )
    file = tmp_path / "answer.py"
    file.write_text(
        text.replace(
            "batch, share = self.global_batch_size, ",
            "batch = self.global_batch_size; share = ",
        )
    )
    report = drill.graded(file, late=False, seconds=SECONDS)
    assert report.score == report.full == 90, report.criteria
    assert drill.graded(file, seconds=SECONDS).score == 90


def test_a_drill_begins_where_the_one_before_it_ends() -> None:
    """The starting point of drills 2, 3 and 4 is the solution of the drill
    before."""
    known = drills()
    for before, after in zip("123", "234", strict=True):
        assert known[after].start == known[before].solution
    assert known["4"].solution.name == "interview.py"


def test_the_drills_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drill", "list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["drill"] for one in found] == [d.number for d in DRILLS]
    assert all(one["title"] and one["minutes"] for one in found)


def started(
    number: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> Path:
    """The file that a drill begins with."""
    assert main(["drill", "start", number, str(folder)]) == 0
    return Path(capsys.readouterr().out.splitlines()[-1])


def words(text: str) -> str:
    """Without where its lines end."""
    return " ".join(text.split())


def test_the_change_comes_at_half_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drill = DRILLS[0]
    file = started("1", tmp_path, capsys)
    assert file.read_text() == drill.start.read_text()
    check = ["drill", "check", "1", str(file)]
    assert main([*check, "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert drill.change not in {c["name"] for c in report["criteria"]}
    assert report["minutes"] < 1
    clock = file.with_suffix(".clock")
    clock.write_text(str(time.time() - 60 * 8))
    assert main(check) == 1
    said = words(capsys.readouterr().out)
    assert "8 of 15 minutes" in said
    assert words(drill.told("change")) in said
    assert drill.change in said
    question, answer = drill.questions[0]
    assert question in said
    assert words(answer) not in said
    assert main([*check, "--answers"]) == 1
    assert words(answer) in words(capsys.readouterr().out)


def test_full_marks_end_a_drill_with_its_answers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    drill = DRILLS[-1]
    assert main(["drill", "check", drill.number, str(drill.solution)]) == 0
    said = words(capsys.readouterr().out)
    assert "100 of 100" in said
    assert all(words(answer) in said for _, answer in drill.questions)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("start 9", "unknown drill 9; choose from 1"),
        ("check 1 nothing.py", "nothing.py: No such file or directory"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    args: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["drill", *args.split()]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert said in error


def test_what_is_there_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = started("1", tmp_path, capsys)
    file.write_text("half done")
    assert main(["drill", "start", "1", str(tmp_path)]) == 2
    assert "already exists" in capsys.readouterr().err
    assert file.read_text() == "half done"
