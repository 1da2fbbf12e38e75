"""Hard questions: what is asked, what falls short, what holds.

`candidates/ID.yml` is one that is still to be tried, so no page shows it:
whether answers by others fall short, and whether ours is preferred to the best
that is public.

The text is Markdown and a template: a figure is computed, as in `{{
plan("memory", …).total_bytes }}`. Links are those of a page in docs/.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    model_validator,
)

from .rubric import Level

HERE = Path(__file__).parent
CANDIDATES = HERE / "candidates"

TOPICS = {
    "arithmetic": "Arithmetic",
    "hardware": "Hardware",
    "communication": "Communication",
    "processes": "Processes and ranks",
    "trainer": "The trainer",
    "data": "Data",
    "ddp": "Inside DDP",
    "sharding": "Sharding",
    "model-parallel": "Model parallelism",
    "memory": "Memory",
    "checkpointing": "Checkpointing",
    "faults": "Fault tolerance",
    "performance": "Performance",
    "numerics": "Numerics",
    "operations": "Operations",
    "testing": "Testing",
    "interview": "Judgement",
    "rl": "RL post-training",
}

_TEMPLATE = re.compile(r"\{\{.*?\}\}", re.S)
_TARGET = re.compile(r"\]\([^)]*\)")


def words(most: int) -> AfterValidator:
    """At most so many words, templates and addresses not counted."""

    def short(text: str) -> str:
        text = text.strip()
        plain = _TARGET.sub("]", _TEMPLATE.sub("figure", text))
        if (count := len(plain.split())) > most:
            raise ValueError(f"{count} words, where {most} are the most")
        return text

    return AfterValidator(short)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Weak(_Strict):
    """What is often said, and what refutes it."""

    answer: Annotated[str, words(70)]
    why: Annotated[str, words(40)]


class Pushback(_Strict):
    """What an interviewer asks next, how to meet it, and what follows."""

    ask: Annotated[str, words(30)]
    reply: Annotated[str, words(60)]
    then: list[Pushback] = []


class Source(_Strict):
    """A primary source, and what it says."""

    url: str = Field(pattern=r"^https://\S+$")
    says: Annotated[str, words(25)]


class Evidence(_Strict):
    """What holds the answer."""

    tests: list[str] = []  # tests/…/test_x.py::test_name
    pages: list[str] = []  # concepts/memory.md#state
    labs: list[str] = []  # 08
    drills: list[str] = []
    bugs: list[str] = []
    plans: list[str] = []  # the planner's answers that the text quotes
    sources: list[Source] = []

    @model_validator(mode="after")
    def _some(self) -> Evidence:
        if not any(getattr(self, name) for name in type(self).model_fields):
            raise ValueError("nothing holds the answer")
        return self


class Question(_Strict):
    """One question, with all that is said in answer."""

    id: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    topic: str
    level: Level
    title: str = Field(max_length=60)
    question: Annotated[str, words(70)]
    weak: Weak
    strong: Annotated[str, words(200)]
    staff: Annotated[str, words(80)]
    pushbacks: list[Pushback] = Field(min_length=1)
    say: Annotated[str, words(75)]
    evidence: Evidence
    changed: Annotated[str, words(50)]  # what would change the answer, to what
    public: str  # the best answer that was found elsewhere
    expect: str  # why others should fall into the weak answer

    @model_validator(mode="after")
    def _sound(self) -> Question:
        if self.topic not in TOPICS:
            raise ValueError(f"{self.topic} is none of {', '.join(TOPICS)}")
        return self


def load(folder: Path = CANDIDATES) -> dict[str, Question]:
    """All questions, by id, in the order of topics.

    Raises:
        ValueError: a file holds none; says which, and why.
    """
    found = []
    for path in sorted(folder.glob("*.yml")):
        try:
            given = yaml.safe_load(path.read_text("utf-8"))
            one = Question.model_validate(given)
        except (ValueError, yaml.YAMLError) as error:
            raise ValueError(f"{path.name}: {error}") from None
        if one.id != path.stem:
            raise ValueError(f"{path.name}: its id is {one.id}")
        found.append(one)
    found.sort(key=lambda one: (list(TOPICS).index(one.topic), one.id))
    return {one.id: one for one in found}
