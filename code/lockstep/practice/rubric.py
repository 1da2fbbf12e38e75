"""The rubric of a mock interview: ten lines, each worth 0, 1 or 2.

python -m lockstep.practice.rubric writes the tables that the interview map
shows.
"""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

HERE = Path(__file__).parent
SOURCE = HERE / "rubric.yml"
TABLES = HERE / "rubric.md"
PAGE = "practice/interview-map.md"

Level = Literal["senior", "staff", "principal"]
Length = Literal[45, 60]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Stage(_Strict):
    """A part of the hour, and what an interviewer wants to know of it."""

    id: str
    question: str
    minutes: dict[Length, int]


class Line(_Strict):
    """One line of the rubric: what earns 0, 1 and 2."""

    id: str
    stage: str
    level: Level = Field(alias="from")
    name: str
    marks: tuple[str, str, str]
    links: list[str] = Field(min_length=1)


class Rubric(_Strict):
    """All lines, in the order in which an interview meets them."""

    stages: list[Stage]
    levels: tuple[Level, ...]
    lines: list[Line]

    @model_validator(mode="after")
    def _whole(self) -> Rubric:
        stages = [stage.id for stage in self.stages]
        if len(set(stages)) < len(stages):
            raise ValueError("a stage is named twice")
        names = [line.id for line in self.lines]
        if len(set(names)) < len(names):
            raise ValueError("a line is named twice")
        met = list(dict.fromkeys(line.stage for line in self.lines))
        if met != stages:
            raise ValueError(f"lines go through {met}, stages are {stages}")
        for length in (45, 60):
            total = sum(stage.minutes.get(length, 0) for stage in self.stages)
            if total != length:
                raise ValueError(f"{length} minutes add up to {total}")
        return self

    def expected(self, level: Level) -> list[Line]:
        """Return the lines on which this level is expected to earn a 2."""
        known = self.levels[: self.levels.index(level) + 1]
        return [line for line in self.lines if line.level in known]

    def weakest(self, marks: dict[str, int], level: Level) -> list[Line]:
        """Return the two lines to practice next: the lowest marks, and among
        equals those that this level is expected to have.

        Raises ValueError where a line has no mark, or one that is not 0 to 2.
        """
        for line in self.lines:
            if marks.get(line.id) not in (0, 1, 2):
                raise ValueError(f"{line.id} has no mark of 0, 1 or 2")
        own = self.expected(level)
        order = sorted(self.lines, key=lambda x: (marks[x.id], x not in own))
        return order[:2]


def load(path: Path = SOURCE) -> Rubric:
    """Load the rubric, or raise pydantic's error."""
    return Rubric.model_validate(yaml.safe_load(path.read_text("utf-8")))


def _link(target: str) -> str:
    """Return an address below docs/, from the page that shows the tables."""
    return posixpath.relpath(target, posixpath.dirname(PAGE))


def tables(rubric: Rubric) -> str:
    """Both tables in Markdown, as sections that the page includes."""
    rows = ["| stage | question | of 45 min | of 60 min |"]
    rows.append("|---|---|--:|--:|")
    for stage in rubric.stages:
        rows.append(
            f"| {stage.id} | {stage.question} | {stage.minutes[45]}"
            f" | {stage.minutes[60]} |"
        )
    lines = [
        "| line, and level that needs a 2 | 0 | 1 | 2 |",
        "|---|---|---|---|",
    ]
    for line in rubric.lines:
        name = f"[{line.name}]({_link(line.links[0])})"
        cells = [f"{line.stage}: {name}, {line.level}", *line.marks]
        lines.append("| " + " | ".join(cells) + " |")
    parts = {"stages": rows, "lines": lines}
    return "\n".join(
        f"<!-- --8<-- [start:{name}] -->\n"
        + "\n".join(text)
        + f"\n<!-- --8<-- [end:{name}] -->\n"
        for name, text in parts.items()
    )


if __name__ == "__main__":
    TABLES.write_text(tables(load()), encoding="utf-8")
