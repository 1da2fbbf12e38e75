"""Lab 09's scenarios, and the command that shows them."""

import string
from dataclasses import replace
from pathlib import Path

import pytest

from lockstep.cli import main as lockstep
from lockstep.labs.lab_09_interview_scenarios import example
from lockstep.labs.lab_09_interview_scenarios.__main__ import main
from lockstep.labs.lab_09_interview_scenarios.scenario import (
    PARTS,
    Plan,
    Scenario,
    parts,
)
from lockstep.labs.lab_09_interview_scenarios.scenarios import (
    SCENARIOS,
)

ALL = list(SCENARIOS.values())
PLANS = [
    (f"{one.id}-{name}", asked)
    for one in ALL
    for name, asked in one.asks.items()
]
ANSWER = """
ANSWERS = {
    "B3": {
        "problem": "gathers",
        "numbers": {"full_gb": 46.7, "once_gb": 31},
        "layout": {"dp": 32},
        "score": {"problem": 2},
    }
}
"""


def test_there_are_24_each_with_a_first_move_of_its_own() -> None:
    assert list(SCENARIOS) == [f"{g}{n}" for g in "ABC" for n in range(1, 9)]
    assert len({one.first for one in ALL}) == 24


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.id)
def test_a_strong_answer_is_short_and_holds(one: Scenario) -> None:
    words = sum(len(one.answer.text(part).split()) for part in PARTS)
    assert words <= 120
    assert 2 <= len(one.numbers) <= 3
    if one.cluster:
        assert one.illegal(one.answer) == ""
        assert one.too_big(one.answer) == ""


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.id)
def test_no_figure_that_is_asked_for_is_given_away(one: Scenario) -> None:
    """No situation text contains a figure that its scenario asks for."""
    fields = {name for _, name, _, _ in string.Formatter().parse(one.situation)}
    assert fields.isdisjoint(one.numbers)


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.id)
def test_every_figure_is_used(one: Scenario) -> None:
    used = one.situation + one.strong + " ".join(one.figures.values())
    for name in one.figures:
        assert name in one.numbers or name in used


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.id)
def test_a_rubric_says_what_is_complete_and_what_is_missing(
    one: Scenario,
) -> None:
    for text in parts(one.rubric).values():
        complete, missing = text.split(" | ")
        assert complete
        assert missing


@pytest.mark.parametrize(
    "asked", [asked for _, asked in PLANS], ids=[name for name, _ in PLANS]
)
def test_a_plan_is_a_command_that_runs(
    asked: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each `lockstep plan` command that a review prints runs and prints a
    plan."""
    assert lockstep(str(asked).split()[1:]) == 0
    assert capsys.readouterr().out


def test_an_answer_is_shown_beside_rubric_and_strong_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "answers.py"
    file.write_text(ANSWER)
    assert main(["B3", str(file)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "full_gb 46.7 · it is 746.8 · full.data_bytes / 1e9" in said
    assert "once_gb 31 · right" in said
    assert "best_gb missing · it is 60.31" in said
    assert "layout B3: 153.7 GB on a GPU of 80" in said
    assert "why DDP's intuition" not in said  # the reader's mark is 2
    assert "missing? no synchronization until the last micro-batch" in said
    assert "a strong answer: count gathers per step" in said
    assert main(["B4", str(file)]) == 2
    assert "has no answer to B4" in capsys.readouterr().err


@pytest.mark.parametrize("args", [[], ["--first-moves"]])
def test_all_are_listed(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(args) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:2] for line in lines] == list(SCENARIOS)
    assert max(map(len, lines)) <= 80


def test_a_scenario_that_is_not_there_is_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["D1"]) == 2
    assert capsys.readouterr().err == "error: there is no scenario D1\n"


def test_the_example_of_the_page_does_not_fit() -> None:
    scenario, answer = SCENARIOS["A2"], example.ANSWERS["A2"]
    assert scenario.illegal(answer) == ""
    assert scenario.too_big(answer)


def test_an_illegal_layout_is_told_by_the_planner() -> None:
    answer = example.ANSWERS["A2"]
    said = SCENARIOS["A2"].illegal(replace(answer, layout={"tp": 7}))
    assert said.startswith("A2: ")
    said = SCENARIOS["A2"].illegal(replace(answer, layout={}))
    assert said == "A2: it asks for a layout"
