"""Wrong answers, and what a mistake in an answer costs."""

import importlib
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from lockstep.drills import Drill
from lockstep.grading.criteria import Criterion, Report, judged
from lockstep.grading.hang_budget import HangBudget
from lockstep.grading.mutants import Mutant
from lockstep.labs import Lab

# Seconds that an answer that hangs is waited for. A criterion takes one.
HUNG = 4


class Wrong(NamedTuple):
    """A wrong answer: an exercise's solution with a mistake."""

    exercise: Lab | Drill
    mutant: Mutant
    solution: tuple[Path, ...]  # files, whose texts in a row are the solution

    def __str__(self) -> str:
        return f"{self.exercise.number}-{self.mutant.name}"

    @property
    def source(self) -> str:
        """The solution's text, without the mistake."""
        return "\n\n".join(one.read_text("utf-8") for one in self.solution)

    def written(self, folder: Path) -> Path:
        """The answer as a file in a folder."""
        file = folder / f"wrong{self.solution[0].suffix}"
        file.write_text(self.mutant.mutated(self.source), "utf-8")
        return file


def wrong_answers(exercises: Iterable[Lab | Drill]) -> list[Wrong]:
    """All wrong answers to the exercises, in the order of their tables."""
    found = []
    for exercise in exercises:
        name = f"{exercise.grader.removesuffix('grader')}wrong"
        table = importlib.import_module(name)
        if isinstance(exercise, Drill):
            solution: tuple[Path, ...] = (exercise.solution,)
        else:  # the lab's solution.py may only name the functions
            modules = table.SOURCE
            if isinstance(modules, str):
                modules = (modules,)
            solution = tuple(map(module_file, modules))
        found += [Wrong(exercise, one, solution) for one in table.MUTANTS]
    return found


def one_for_each_criterion(wrong: Iterable[Wrong]) -> list[Wrong]:
    """The first wrong answer that breaks each criterion alone. They are asked
    every day, and all once a week."""
    found: dict[tuple[str, ...], Wrong] = {}
    for one in wrong:
        if len(one.mutant.fails) == 1:
            found.setdefault((one.exercise.number, *one.mutant.fails), one)
    return list(found.values())


def module_file(name: str) -> Path:
    """The file of a module."""
    spec = find_spec(name)
    assert spec
    assert spec.origin
    return Path(spec.origin)


def criteria(grader: str) -> list[Criterion]:
    """Those of the module `grader`."""
    return list(importlib.import_module(grader).CRITERIA)


def assert_fails(wrong: Wrong, folder: Path, seconds: float) -> None:
    """The answer fails the criteria that it names, where those that they stand
    on pass. What else it fails, a whole grading says."""
    file, named = wrong.written(folder), wrong.mutant.fails
    grader = wrong.exercise.grader
    assert named
    assert named <= {criterion.name for criterion in criteria(grader)}
    for number, criterion in enumerate(criteria(grader)):
        if criterion.name in named:
            swapped = [criterion.needs[x] for x in named & {*criterion.needs}]
            assert all(swapped), f"{criterion.name} would be blocked"
            job = grader, number, file, swapped
            asked = HUNG if wrong.mutant.seconds else seconds
            status, hint = judged(criterion, HangBudget(), asked, *job)
            assert status == "failed", (criterion.name, status, hint)
            assert hint


def assert_costs(report: Report, wrong: Wrong) -> None:
    """The criteria that the answer names failed, and no other."""
    failed = [c for c in report.criteria if c.status == "failed"]
    assert {c.name for c in failed} == wrong.mutant.fails, report.criteria
    assert all(c.hint for c in failed)


def assert_each_criterion_has_its_mistake(
    exercise: Lab | Drill, wrong: Iterable[Wrong]
) -> None:
    """For each criterion, one mistake breaks that criterion alone."""
    broken = [one.mutant.fails for one in wrong if one.exercise == exercise]
    assert len(broken) >= 8
    for criterion in criteria(exercise.grader):
        assert {criterion.name} in broken
