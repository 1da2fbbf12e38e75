"""The core of the bank: questions that are asked in public.

`core_questions/ID.yml` is one question with all that is said in answer. Text,
figures and links follow `bank.py`; in addition, each factual sentence ends in a
proof mark, as on a page. The questions of `bank.py` are traps, which sharpen
these.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field, model_validator

from .bank import (
    Address,
    Asked,
    Best,
    Comparisons,
    Fixed,
    Strict,
    loaded,
    replies,
    spoken,
    words,
)
from .rubric import Level

CORE = Path(__file__).parent / "core_questions"
KINDS = {
    "explain": "Explain a mechanism",
    "compare": "Compare",
    "estimate": "Estimate",
    "debug": "Debug from symptoms",
    "design": "Design",
    "judge": "Judge",
    "incident": "Tell of an incident",
}
PACE = 150  # words a minute, without a pause
INTERVIEW = re.compile("interview|take-home", re.I)
_ENDS = re.compile(r"[.?!](?=\s|$)")


def sentences(most: int) -> AfterValidator:
    """At most so many sentences."""

    def short(text: str) -> str:
        if (count := len(_ENDS.findall(text.strip()))) > most:
            raise ValueError(f"{count} sentences, where {most} are the most")
        return text

    return AfterValidator(short)


class Trace(Strict):
    """A public place from which one sees that it is asked."""

    url: Address
    says: Annotated[str, words(30)]


class Weak(Strict):
    """What a weak answer sounds like, and what it reveals."""

    answer: Annotated[str, words(70)]
    reveals: Annotated[str, words(50)]


class Heard(Strict):
    """What a listener repeated who had only heard the answer."""

    decision: Annotated[str, words(40)]
    reason: Annotated[str, words(40)]
    metric: Annotated[str, words(40)]


class Trials(Strict):
    """How the answer was tried, by large language models."""

    date: datetime.date
    heard: Heard
    best: Best
    comparisons: Comparisons


class Core(Asked):
    """One question of the core, with all that is said in answer. `level` is
    the lowest at which it is asked."""

    tier: Literal["core"] = "core"
    kind: Literal[
        "explain",
        "compare",
        "estimate",
        "debug",
        "design",
        "judge",
        "incident",
    ]
    question: Annotated[str, words(70), sentences(3)]
    ask_back: tuple[Annotated[str, words(30)], ...] = Field(min_length=1)
    answer: Annotated[str, words(220)]  # as it is spoken
    draw: str  # a diagram, or a calculation step by step
    weak: Weak
    staff: Annotated[str, words(80)]
    principal: Annotated[str, words(80)]
    scored: Fixed[Level, Annotated[str, words(40)]]  # what one can observe
    asked: tuple[Trace, ...] = Field(min_length=2)
    sharpened: tuple[str, ...] = ()  # ids of traps
    trials: Trials

    @model_validator(mode="after")
    def _sound(self) -> Core:
        if not any(one.then for one in self.pushbacks):
            raise ValueError("no pushback has a second one behind it")
        if len({one.url for one in self.asked}) < len(self.asked):
            raise ValueError("two traces have one address")
        if missing := {*get_args(Level)} - self.scored.keys():
            raise ValueError(f"scored does not say what {min(missing)} is")
        return self

    @property
    def in_interviews(self) -> bool:
        """Whether one of the places that ask it names interviews."""
        return any(INTERVIEW.search(one.url + one.says) for one in self.asked)

    @property
    def seconds(self) -> int:
        """How long the answer takes aloud, without a pause."""
        return round(len(spoken(self.answer)) * 60 / PACE)

    def parts(self) -> dict[str, str]:
        # What to draw is on the question's page: all cards come at once.
        return {
            "Answer": self.answer,
            "Weak": self.weak.answer,
            "It reveals": self.weak.reveals,
            "At staff level": self.staff,
            "At principal level": self.principal,
        }

    def answers(self) -> Iterator[tuple[str, str, str]]:
        asked = f"{self.title}\n{self.question}"
        for place in ("answer", "draw", "staff", "principal"):
            yield place, getattr(self, place), asked
        yield "weak.reveals", self.weak.reveals, f"{asked}\n{self.weak.answer}"
        yield from replies(self.pushbacks, "pushbacks", asked)


def core(folder: Path = CORE) -> dict[str, Core]:
    """All questions of the core, by id, in the order of topics.

    Raises:
        ValueError: as `loaded` does.
    """
    return loaded(folder, Core)
