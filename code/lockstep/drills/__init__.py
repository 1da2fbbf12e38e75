"""The drills: five stages in which the interview cut is built.

A stage begins with the file that solves the one before it. What a reader is
told, `task.md`, is included by the drill's page and printed by the command.
"""

from __future__ import annotations

import importlib
import re
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

from lockstep.grading.exercise import Exercise, found

if TYPE_CHECKING:
    from lockstep.grading.criteria import Report


class Drill(Exercise):
    """A drill's folder in the package."""

    @property
    def minutes(self) -> int:
        """How long it takes."""
        return int(self.module.MINUTES)

    @property
    def change(self) -> str:
        """The criterion that is asked for from half-time on."""
        return str(self.module.CHANGE)

    @property
    def start(self) -> Path:
        """Where it begins: with the solution of the drill before it."""
        return Path(self.module.START)

    @property
    def solution(self) -> Path:
        """What it ends with."""
        return Path(self.module.SOLUTION)

    def told(self, section: str) -> str:
        """A section of task.md: task, change, late, questions."""
        text = Path(__path__[0], self.name, "task.md").read_text("utf-8")
        begin, end = (
            f"<!-- --8<-- [{at}:{section}] -->\n" for at in ("start", "end")
        )
        return text.partition(begin)[2].partition(end)[0].strip()

    @property
    def questions(self) -> list[tuple[str, str]]:
        """Each with a strong answer."""
        _, *found = re.split(
            r'^\?\?\? question "(.*)"$', self.told("questions"), flags=re.M
        )
        answers = (dedent(text).strip() for text in found[1::2])
        return list(zip(found[::2], answers, strict=True))

    def graded(
        self, file: Path, late: bool = True, seconds: float | None = None
    ) -> Report:
        """What the answer in `file` gets.

        Args:
            late: whether what changes at half-time counts.
            seconds: in place of each criterion's own timeout.
        """
        if self.solution.suffix == ".py":
            from lockstep.grading.criteria import grade

            report = grade(self.number, self.grader, file, seconds)
        else:
            report = importlib.import_module(self.grader).grade(file)
        asked = [c for c in report.criteria if late or c.name != self.change]
        return replace(report, criteria=asked)


def drills() -> dict[str, Drill]:
    """All drills, by number."""
    return found(Drill)
