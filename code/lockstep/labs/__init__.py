"""The labs: per lab a starter, a grader, a solution, and wrong answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.grading.exercise import Exercise, found

if TYPE_CHECKING:
    from lockstep.grading.criteria import Report


class Lab(Exercise):
    """A lab's folder in the package."""

    @property
    def introduction(self) -> str:
        """The paragraphs of its docstring after the title."""
        return (self.module.__doc__ or "").partition("\n")[2].strip()

    @property
    def brings(self) -> list[str]:
        """The modules that its notebook has beside the grader."""
        own = super().brings
        parts = "solution", "demo", "__main__"
        return own + [f"{own[0]}.{p}" for p in parts if self.file(p).exists()]

    def file(self, part: str) -> Path:
        """Its starter.py, solution.py, …"""
        return Path(__path__[0], self.name, f"{part}.py")

    def graded(self, file: Path) -> Report:
        """What the answer in `file` gets."""
        from lockstep.grading.criteria import grade

        return grade(self.number, self.grader, file)


def labs() -> dict[str, Lab]:
    """All labs, by number."""
    return found(Lab)
