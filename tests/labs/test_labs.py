"""Every lab: its solution passes, and each mistake costs its own criterion."""

import json
import re
from multiprocessing.forkserver import ensure_running
from pathlib import Path

import pytest

from lockstep.cli import main
from lockstep.grading.criteria import CannotGradeError, grade
from lockstep.grading.ranks import PRELOAD, SERVER
from lockstep.labs import Lab, labs
from tests.conftest import daily
from tests.grading.wrong_answers import (
    Wrong,
    assert_costs,
    assert_each_criterion_has_its_mistake,
    assert_fails,
    one_for_each_criterion,
    wrong_answers,
)

pytestmark = pytest.mark.timeout(300)
HERE = Path(__file__).parent
SECONDS = 30  # a criterion takes one, where nothing else runs
LABS = list(labs().values())
SERVER.set_forkserver_preload([*PRELOAD, *(lab.grader for lab in LABS)])
ensure_running()  # before the first grading would, with its own grader alone
WRONG = wrong_answers(LABS)


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_the_solution_gets_full_marks(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The solution that `lockstep lab solution` writes is graded 100 of 100 in
    each lab."""
    assert main(["lab", "solution", lab.number, str(tmp_path)]) == 0
    file = capsys.readouterr().out.strip()
    assert main(["lab", "grade", lab.number, file, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["score"] == report["full"] == 100
    assert {c["status"] for c in report["criteria"]} == {"passed"}


@pytest.mark.parametrize(
    "lab", daily(LABS, *LABS[::3]), ids=lambda lab: lab.name
)
def test_another_solution_gets_full_marks(lab: Lab) -> None:
    """A second solution, written differently, gets full marks in each lab."""
    file = HERE / f"alternative_{lab.number}.py"
    report = grade(lab.number, lab.grader, file, SECONDS)
    assert [c for c in report.criteria if c.status != "passed"] == []


@pytest.mark.parametrize(
    "lab", daily(LABS, *LABS[::3]), ids=lambda lab: lab.name
)
def test_the_starter_scores_nothing_and_is_not_attempted(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", "start", lab.number, str(tmp_path)]) == 0
    file = capsys.readouterr().out.strip()
    assert main(["lab", "grade", lab.number, file, "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["score"] == 0
    found = {c["status"] for c in report["criteria"]}
    assert found <= {"not attempted", "blocked"}


@pytest.mark.parametrize("wrong", one_for_each_criterion(WRONG), ids=str)
def test_a_mistake_costs_the_criterion_that_it_breaks(
    wrong: Wrong, tmp_path: Path
) -> None:
    """For each criterion of each lab there is a wrong answer that breaks this
    criterion alone. The grader fails it there, with a hint. A weekly run
    grades all wrong answers."""
    assert_fails(wrong, tmp_path, SECONDS)


def assert_costs_its_own(wrong: Wrong, folder: Path) -> None:
    """What it says it fails, it fails, and nothing else."""
    lab, seconds = wrong.exercise, wrong.mutant.seconds or SECONDS
    report = grade(lab.number, lab.grader, wrong.written(folder), seconds)
    assert_costs(report, wrong)


@pytest.mark.parametrize("lab", LABS[::6], ids=lambda lab: lab.name)
def test_a_mistake_costs_no_other_criterion(lab: Lab, tmp_path: Path) -> None:
    """The first mistake of each sixth lab; all of all labs once a week."""
    first = next(one for one in WRONG if one.exercise == lab)
    assert_costs_its_own(first, tmp_path)


@pytest.mark.weekly
@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_no_mistake_costs_another_criterion(
    wrong: Wrong, tmp_path: Path
) -> None:
    assert_costs_its_own(wrong, tmp_path)


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_every_criterion_is_the_only_one_that_some_mistake_breaks(
    lab: Lab,
) -> None:
    assert_each_criterion_has_its_mistake(lab, WRONG)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(:\n", "SyntaxError"),
        ("import nothing_of_that_name\n", "No module named 'nothing_of"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
    ],
)
def test_what_cannot_be_imported_cannot_be_graded(
    text: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "answer.py"
    file.write_text(text)
    with pytest.raises(CannotGradeError, match=said) as raised:
        grade("01", LABS[0].grader, file)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("start 99", "unknown lab 99; choose from 01"),
        ("grade 01 nothing.py", "nothing.py: No such file or directory"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    args: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", *args.split()]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert said in error


def test_a_starter_that_is_there_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "lab_01_collectives.py"
    mine.write_text("half done")
    assert main(["lab", "start", "1", str(tmp_path)]) == 2
    assert "already exists" in capsys.readouterr().err
    assert mine.read_text() == "half done"


def test_a_table_says_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = next(one for one in WRONG if one.mutant.name == "adds_into_inputs")
    assert main(["lab", "grade", "01", str(wrong.written(tmp_path))]) == 1
    said = " ".join(capsys.readouterr().out.split())
    # Whichever rank finds it first.
    assert re.search(
        r"reduce-scatter 0/13 failed inputs\[\d\] of rank \d,", said
    )
    assert said.endswith("87 of 100")


def test_a_lab_of_the_biotech_track_is_asked_for_in_either_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in "b3", "B3":
        assert main(["lab", "start", number, str(tmp_path / number)]) == 0
        started = Path(capsys.readouterr().out.strip())
        assert started.name == "lab_b3_masked_loss.py"
        assert main(["lab", "grade", number, str(started), "--json"]) == 1
        assert json.loads(capsys.readouterr().out)["lab"] == "b3"


def test_the_biotech_track_comes_after_the_twelve() -> None:
    numbers = [lab.number for lab in LABS]
    twelve = [f"{number:02}" for number in range(1, 13)]
    assert numbers[:12] == twelve
    assert numbers[12:] == sorted(numbers[12:])
    assert all(re.fullmatch("b[1-6]", number) for number in numbers[12:])


def test_the_labs_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["lab"] for one in found] == [lab.number for lab in LABS]
    assert all(one["title"] for one in found)
