"""What a grader does with an answer that is not the reader's own."""

from pathlib import Path

import pytest

from lockstep.grading.criteria import CannotGradeError
from lockstep.labs import labs

LAB = labs()["01"]
HOME = "lockstep.labs.lab_01_collectives"


@pytest.mark.parametrize(
    "text",
    [
        f"from {HOME}.solution import *",
        f"from {HOME} import solution",
        f"def ring_all_reduce(tensor):\n    import {HOME}.solution",
    ],
)
def test_an_answer_that_imports_the_solution_is_refused_in_one_line(
    text: str, tmp_path: Path
) -> None:
    """An answer that imports its own lab's solution is not graded. The message
    is one line."""
    file = tmp_path / "answer.py"
    file.write_text(text)
    with pytest.raises(CannotGradeError, match="imports the solution") as error:
        LAB.graded(file)
    assert "\n" not in str(error.value)


def test_an_answer_that_patches_the_grader_ends_without_a_traceback(
    tmp_path: Path,
) -> None:
    """An answer replaces the function that runs the checks. What it returns in
    their place fails the criterion that reads it."""
    file = tmp_path / "answer.py"
    file.write_text(
        "from lockstep.grading import criteria\n"
        "criteria.quietly = lambda *_: 'passed'\n"
    )
    [tree] = [c for c in LAB.graded(file).criteria if c.name == "tree"]
    assert tree.status == "failed"
    assert tree.hint.startswith("the grader cannot read what the answer gave")


def test_what_a_rank_sends_and_nobody_can_read_fails_the_criterion(
    tmp_path: Path,
) -> None:
    file = tmp_path / "answer.py"
    file.write_text(
        "from lockstep.grading import criteria\n"
        "class Own: pass\n"
        "criteria.quietly = lambda *_: Own()\n"
    )
    report = LAB.graded(file)
    assert {c.status for c in report.criteria} <= {"failed", "blocked"}
