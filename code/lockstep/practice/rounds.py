"""Design rounds: an interview of 45 to 60 minutes, from prompt to score.

`rounds/ID.yml` is one. The site makes three pages of it: the whole round, to
read; one for the candidate, who sees the prompt and the clock; and one for the
interviewer, who has the answers, what to listen for and the score sheet. Text
is Markdown and a template, as in a chapter, with proof marks and figures of
the planner.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from .bank import Asked, Fixed, Strict, loaded, words
from .rubric import Level

ROUNDS = Path(__file__).parent / "rounds"
# The parts of a round, in the order in which they are met.
STAGES = {
    "requirements": "What to ask first",
    "numbers": "The numbers",
    "first": "A first design that works",
    "failures": "How it fails",
    "second": "The second design",
    "concerns": "Data, checkpoints, observability, security, cost",
    "rollout": "Roll-out",
    "wrong": "What would make this wrong",
}
CONCERNS = "data", "checkpoints", "observability", "security", "cost"


class Requirement(Strict):
    """What a good candidate asks, this round's answer, and what it decides."""

    ask: Annotated[str, words(30)]
    answer: Annotated[str, words(50)]
    decides: Annotated[str, words(50)]


class Push(Strict):
    """What the interviewer asks in the middle of a stage, and what holds."""

    ask: Annotated[str, words(40)]
    reply: Annotated[str, words(90)]


class Stage(Strict):
    """What a stage comes to. `listen` is what an interviewer waits for."""

    minutes: int = Field(ge=2, le=15)
    text: str = ""
    diagram: str = ""  # mermaid, which grows from stage to stage
    listen: tuple[Annotated[str, words(40)], ...] = Field(min_length=1)
    push: tuple[Push, ...] = ()


class Failure(Strict):
    """One way in which the first design breaks."""

    title: str = Field(max_length=60)
    text: Annotated[str, words(150)]  # what happens, when, by which number
    seen: Annotated[str, words(60)]  # by what one would notice
    mended: Annotated[str, words(80)]  # what the second design does about it


class Line(Strict):
    """One line of the score sheet: what each level does, in terms that an
    interviewer can observe."""

    name: str = Field(max_length=40)
    marks: Fixed[Level, Annotated[str, words(45)]]

    @model_validator(mode="after")
    def _all(self) -> Line:
        if len(self.marks) != 3:
            raise ValueError("it needs a mark for senior, staff and principal")
        return self


class Turn(Strict):
    """What one of the two says, and what it shows."""

    who: Literal["interviewer", "candidate"]
    says: Annotated[str, words(150)]
    note: Annotated[str, words(50)] = ""


class Round(Asked):
    """A whole round. `question` is the prompt as it is spoken, and
    `pushbacks` are what comes when there is time left."""

    tier: Literal["rounds"] = "rounds"
    question: Annotated[str, words(110)]
    opening: Annotated[str, words(200)]  # why it is asked, and what decides it
    requirements: tuple[Requirement, ...] = Field(min_length=6)
    stages: Fixed[str, Stage]
    failures: tuple[Failure, ...] = Field(min_length=4)
    concerns: Fixed[str, str]
    rubric: tuple[Line, ...] = Field(min_length=5)
    weak: tuple[Turn, ...] = Field(min_length=4)
    strong: tuple[Turn, ...] = Field(min_length=8)
    short: tuple[Annotated[str, words(40)], ...] = Field(
        min_length=4, max_length=6
    )

    @model_validator(mode="after")
    def _sound(self) -> Round:
        for given, wanted in ((self.stages, STAGES), (self.concerns, CONCERNS)):
            if [*given] != [*wanted]:
                raise ValueError(f"it needs {', '.join(wanted)}, in this order")
        if not 45 <= self.minutes <= 60:
            raise ValueError(
                f"{self.minutes} minutes, where 45 to 60 are wanted"
            )
        if any("<br" in one.diagram for one in self.stages.values()):
            raise ValueError("end a label's line in the text: <br> is no line")
        drawn = [name for name, one in self.stages.items() if one.diagram]
        if not {"first", "second"} <= {*drawn}:
            raise ValueError("the first and the second design need diagrams")
        for name in (
            *STAGES.keys() - {"requirements", "failures", "concerns"},
        ):
            if not self.stages[name].text:
                raise ValueError(f"{name} has no text")
        return self

    @property
    def minutes(self) -> int:
        """Add up the minutes of all stages."""
        return sum(one.minutes for one in self.stages.values())

    @property
    def begins(self) -> dict[str, int]:
        """The minute at which each stage begins."""
        took = (one.minutes for one in self.stages.values())
        return dict(zip(self.stages, accumulate(took, initial=0), strict=False))

    def answers(self) -> Iterator[tuple[str, str, str]]:
        yield "opening", self.opening, self.question
        for number, one in enumerate(self.requirements, 1):
            yield f"requirements.{number}", one.decides, one.answer
        for name, stage in self.stages.items():
            yield f"stages.{name}", stage.text, self.question
            for push in stage.push:
                yield f"stages.{name}.push", push.reply, push.ask
        for failure in self.failures:
            text = f"{failure.text}\n{failure.seen}\n{failure.mended}"
            yield f"failures.{failure.title}", text, self.question
        for name, text in self.concerns.items():
            yield f"concerns.{name}", text, self.question


def rounds(folder: Path = ROUNDS) -> dict[str, Round]:
    """All of them, by id.

    Raises:
        ValueError: a file holds none; says which, and why.
    """
    return loaded(folder, Round)
