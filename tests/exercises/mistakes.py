"""What a mistake in an answer costs."""

import importlib
from pathlib import Path

from lockstep.exercises.grading.criteria import Criterion, Report, judged
from lockstep.exercises.grading.patience import Patience


def criteria(grader: str) -> list[Criterion]:
    """Those of the module `grader`."""
    return list(importlib.import_module(grader).CRITERIA)


def assert_fails(
    grader: str, file: Path, named: set[str], seconds: float
) -> None:
    """The answer in `file` fails the criteria that are named, where those that
    they stand on pass. What else it fails, a whole grading says."""
    assert named
    assert named <= {criterion.name for criterion in criteria(grader)}
    for number, criterion in enumerate(criteria(grader)):
        if criterion.name in named:
            swapped = [criterion.needs[x] for x in named & {*criterion.needs}]
            assert all(swapped), f"{criterion.name} would be blocked"
            job = grader, number, file, swapped
            status, hint = judged(criterion, Patience(), seconds, *job)
            assert status == "failed", (criterion.name, status, hint)
            assert hint


def assert_costs(report: Report, named: set[str]) -> None:
    """The criteria that are named failed, and no other."""
    failed = [c for c in report.criteria if c.status == "failed"]
    assert {c.name for c in failed} == named, report.criteria
    assert all(c.hint for c in failed)
